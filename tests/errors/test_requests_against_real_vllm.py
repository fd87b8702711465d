# SPDX-License-Identifier: Apache-2.0
"""Requests that real vLLM refuses: probe and doctor must name the same cause, within seconds."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from fixtures.booting import Booter, Change, leftovers
from vllm_perf.cli import main
from vllm_perf.engine.boot import BootSettings
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.http import ask
from vllm_perf.engine.process import free_port
from vllm_perf.spec.category import Category
from vllm_perf.spec.files import EngineBook

pytestmark = pytest.mark.real_engine

KEY = "tstKEY-of-the-server-0001"
INHERITED = "tstKEY-of-the-shell-0002"
LENGTH = 256
# A diagnosis takes well under a second; the rest is what a busy machine adds.
DIAGNOSED_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def server(book: EngineBook, settings: BootSettings, device: None, changed: Change) -> Iterator[Engine]:
    """Boot one vLLM that wants a key, from a shell that has another one in its environment."""
    spec = changed("cpu-initial", {"max-model-len": LENGTH, "api-key": KEY})
    expect = spec.expect.model_copy(update={"max_model_len": LENGTH})
    booter = Booter(book, settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_API_KEY", INHERITED)
        engine = booter.boot(spec.model_copy(update={"expect": expect}))
    yield engine
    engine.stop()
    assert leftovers() == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One request with something wrong: what is sent, and what must be said about it.

    ``url``, ``evidence`` and ``remedy`` may name {root}, {port}, {free}, {model}; ``key`` is ``None`` for no
    key at all. ``evidence`` must stand in what probe saw and in what the doctor found.
    """

    category: Category
    evidence: str
    remedy: str
    url: str = "{root}/v1"
    key: str | None = KEY
    model: str = "{model}"


REFUSED = "Unauthorized"
KEYS: dict[str, Wrong] = {
    "wrong key": Wrong(
        key="tstKEY-wrong-0003",
        category=Category.AUTH_WRONG_OR_MISSING_KEY,
        evidence=REFUSED,
        remedy="without --api-key",
    ),
    "the key of the shell that booted it": Wrong(
        key=INHERITED,
        category=Category.AUTH_WRONG_OR_MISSING_KEY,
        evidence=REFUSED,
        remedy="without --api-key",
    ),
    "no key": Wrong(
        key=None,
        category=Category.AUTH_WRONG_OR_MISSING_KEY,
        evidence=REFUSED,
        remedy="(--api-key or VLLM_API_KEY)",
    ),
    "empty key": Wrong(
        key="", category=Category.KEY_MALFORMED, evidence="the key is empty", remedy="set the key"
    ),
    "key with a newline": Wrong(
        key=KEY + "\n",
        category=Category.KEY_MALFORMED,
        evidence="ends with a newline",
        remedy="strip the key",
    ),
}
URLS: dict[str, Wrong] = {
    "no /v1": Wrong(
        url="{root}", category=Category.BASE_URL_MISSING_V1, evidence="{root}", remedy="use {root}/v1"
    ),
    "the endpoint in the URL": Wrong(
        url="{root}/v1/chat/completions",
        category=Category.BASE_URL_HAS_ENDPOINT,
        evidence="already holds the endpoint",
        remedy="use {root}/v1",
    ),
    "another port": Wrong(
        url="http://127.0.0.1:{free}/v1",
        category=Category.SERVER_DOWN,
        evidence="{free}",
        remedy="port",
    ),
    "https": Wrong(
        url="https://127.0.0.1:{port}/v1",
        category=Category.SCHEME_MISMATCH,
        evidence="SSL",
        remedy="use http://127.0.0.1:{port}/v1",
    ),
    "misspelt model": Wrong(
        model="qwen2-smal",
        category=Category.MODEL_NOT_FOUND,
        evidence="qwen2-smal",
        remedy="{model}",
    ),
}
CASES = {**KEYS, **URLS}


def _ask(
    command: str, capsys: pytest.CaptureFixture[str], url: str, model: str, *more: str
) -> tuple[int, dict[str, str]]:
    code = main([command, "--json", "--base-url", url, "--model", model, *more])
    captured = capsys.readouterr()
    assert "tstKEY" not in captured.out + captured.err
    return code, json.loads(captured.out)


@pytest.mark.parametrize("wrong", CASES.values(), ids=CASES.keys())
def test_probe_and_doctor_agree(
    server: Engine, wrong: Wrong, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.process is not None
    names = {
        "root": server.root_url,
        "port": server.process.port,
        "free": free_port(),
        "model": server.target.model,
    }
    url, model, evidence, remedy = (
        text.format(**names) for text in (wrong.url, wrong.model, wrong.evidence, wrong.remedy)
    )
    key: tuple[str, ...] = ()
    if wrong.key is not None:
        monkeypatch.setenv("LAB_KEY", wrong.key)
        key = ("--api-key-env", "LAB_KEY")
    started = time.monotonic()
    probe_code, probe = _ask("probe", capsys, url, model, *key)
    doctor_code, doctor = _ask("doctor", capsys, url, model, *key)
    took_s = time.monotonic() - started
    assert (probe_code, doctor_code) == (1, 1)
    assert (probe["outcome"], doctor["category"]) == (wrong.category, wrong.category)
    assert evidence in probe["detail"]
    assert evidence in f"{doctor['cause']} {doctor['evidence']}"
    assert remedy in probe["remedy"]
    assert remedy in doctor["remedy"]
    assert took_s < DIAGNOSED_WITHIN_S


def test_right_request_is_served(
    server: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    code, found = _ask(
        "doctor", capsys, server.target.base_url, server.target.model, "--api-key-env", "LAB_KEY"
    )
    assert (code, found["category"]) == (0, Category.OK), found


@pytest.mark.parametrize(
    "more",
    [("--max-tokens", "4096"), ("--prompt", "word " * 2000, "--max-tokens", "8")],
    ids=["output", "prompt"],
)
def test_request_above_the_length_names_the_limit(
    server: Engine, more: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    words = ("--api-key-env", "LAB_KEY", *more)
    started = time.monotonic()
    code, found = _ask("probe", capsys, server.target.base_url, server.target.model, *words)
    assert (code, found["outcome"]) == (1, Category.CONTEXT_OVERFLOW), found
    assert str(LENGTH) in found["detail"]
    assert "--max-model-len" in found["remedy"]
    assert time.monotonic() - started < DIAGNOSED_WITHIN_S


def test_max_tokens_of_nothing_is_blamed_on_the_request(
    server: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", KEY)
    words = ("--api-key-env", "LAB_KEY", "--max-tokens", "-1")
    started = time.monotonic()
    code, found = _ask("probe", capsys, server.target.base_url, server.target.model, *words)
    assert (code, found["outcome"]) == (1, Category.MAX_TOKENS_TOO_SMALL), found
    assert "max_tokens" in found["detail"]
    assert "more max_tokens" in found["remedy"]
    assert time.monotonic() - started < DIAGNOSED_WITHIN_S


def test_key_of_the_shell_does_not_reach_the_engine_and_that_is_said(server: Engine) -> None:
    assert any("VLLM_API_KEY" in warning for warning in server.warnings)
    assert INHERITED not in repr(server.warnings)
    assert ask(f"{server.target.base_url}/models", key=INHERITED).status == 401
    assert ask(f"{server.target.base_url}/models", key=KEY).status == 200


def test_key_stands_neither_on_the_command_line_nor_in_the_log(server: Engine) -> None:
    assert server.process is not None
    log = server.process.log_path.read_text(encoding="utf-8")
    assert "Application startup complete" in log
    for key in (KEY, INHERITED):
        assert key not in log
        assert all(key not in word for part in server.process.pids for word in psutil.Process(part).cmdline())
