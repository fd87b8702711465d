# SPDX-License-Identifier: Apache-2.0
"""An environment says what ran and what was asked; it never holds a key, a port or a path of this machine."""

from pathlib import Path

import pytest

from tests.unit.history.builders import H200
from vllm_perf.history.collect import EngineIdentity, collect, local_revision
from vllm_perf.history.environment import Environment
from vllm_perf.history.git import Suite
from vllm_perf.history.versions import Versions, probe_versions
from vllm_perf.spec.protocol import MEASUREMENT_PROTOCOL
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec

CHAT = WorkloadSpec(
    name="chat",
    prompt=PromptSpec(kind="shared_prefix", shared_tokens=900, unique_tokens=40),
    arrival=ArrivalSpec(concurrency=4),
    output_tokens=32,
    requests=16,
    seed=3,
)


def collected(engine: EngineIdentity, workload: WorkloadSpec = CHAT) -> Environment:
    return collect(
        engine=engine,
        workload=workload,
        prompt_set_hash="abc",
        hardware=H200,
        suite=Suite(commit="c", branch="main", dirty=True, note="uncommitted changes"),
    )


def test_the_three_parts_hold_what_was_measured() -> None:
    versions = Versions(vllm_version="0.32.0", torch_version="2.13.0", python_version="3.11.7")
    where = collected(EngineIdentity(model="Qwen/Qwen2.5-7B-Instruct", versions=versions, quantization="awq"))
    assert (where.software.vllm_version, where.software.suite_dirty) == ("0.32.0", True)
    assert (where.workload.model, where.workload.quantization) == ("Qwen/Qwen2.5-7B-Instruct", "awq")
    assert (where.workload.prompt_tokens, where.workload.output_tokens) == (940, 32)
    assert (where.workload.concurrency, where.workload.seed) == (4, 3)
    assert where.workload.protocol == MEASUREMENT_PROTOCOL


def test_an_open_loop_has_a_rate_and_no_concurrency() -> None:
    load = CHAT.model_copy(update={"arrival": ArrivalSpec(kind="poisson", rate_per_s=2.5)})
    where = collected(EngineIdentity(model="m"), load)
    assert (where.workload.arrival, where.workload.rate_per_s) == ("poisson", 2.5)
    assert where.workload.concurrency is None


@pytest.mark.parametrize(
    "name", ["api-key", "port", "host", "hf-token", "ssl-password", "HF_TOKEN", "X_API_KEY"]
)
def test_keys_and_ports_are_left_out(name: str) -> None:
    where = collected(EngineIdentity(model="m", args={name: "sk-1"}, env={name: "sk-1"}))
    assert not where.software.engine_args
    assert not where.software.engine_env


@pytest.mark.parametrize("name", ["tokenizer", "max-num-batched-tokens", "kv-cache-dtype"])
def test_arguments_that_only_sound_like_keys_are_kept(name: str) -> None:
    assert name in collected(EngineIdentity(model="m", args={name: "1"})).software.engine_args


def test_where_a_model_lies_is_not_what_it_is(tmp_path: Path) -> None:
    keys = []
    for folder in ("here", "there"):
        model = tmp_path / folder / "tiny"
        model.mkdir(parents=True)
        (model / "config.json").write_text('{"hidden_size": 512}')
        keys.append(collected(EngineIdentity(model=str(model), args={"tokenizer": str(model)})).key)
    assert keys[0] == keys[1]


def test_another_config_is_another_revision(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    before = local_revision(tmp_path)
    (tmp_path / "config.json").write_text('{"hidden_size": 512}')
    assert before is not None
    assert local_revision(tmp_path) != before
    assert local_revision(tmp_path / "none") is None


def test_versions_are_read_without_importing_the_packages(tmp_path: Path) -> None:
    found = probe_versions()
    assert found.note is None
    assert found.python_version


def test_a_python_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    assert "No such file" in str(probe_versions(str(tmp_path / "python")).note)


def test_a_python_that_fails_is_a_note() -> None:
    assert probe_versions("/bin/false").note == "/bin/false: no answer"


def test_a_folder_that_happens_to_be_called_torch_is_not_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "version.py").write_text("__version__ = 'mine'\n")
    monkeypatch.chdir(tmp_path)
    assert probe_versions().torch_version != "mine"
