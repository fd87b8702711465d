# SPDX-License-Identifier: Apache-2.0
"""An interruption in the very moment of starting leaves no engine: it is held back, or a note names it."""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.engine.boot import BootSettings, boot
from vllm_perf.engine.process import EngineProcess, free_port, new_token
from vllm_perf.engine.state import live_notes
from vllm_perf.engine.tree import marked
from vllm_perf.engine.uninterrupted import uninterrupted
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook

SPEC = EngineSpec(name="e", model="golden", platform="golden", boot_timeout_s=60)


def start_golden(folder: Path) -> None:
    settings = BootSettings(model_cache=folder, log_dir=folder, stop_patience_s=0.5)
    book = EngineBook(path=folder, engines={"e": SPEC}, ladders={}, models={})
    boot(SPEC, book, settings, lambda *_: None)


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return the tokens in the notes that were there whenever a process was started."""
    noted: list[tuple[str, ...]] = []
    real = subprocess.Popen

    def popen(*words: Any, **options: Any) -> Any:
        noted.append(tuple(note.token for note in live_notes()))
        return real(*words, **options)

    monkeypatch.setattr("vllm_perf.engine.process.subprocess.Popen", popen)
    return noted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_moment_of_starting_leaves_nothing_running(
    number: signal.Signals, tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str] = []
    real = EngineProcess.start

    def start(name: str, argv: list[str], env: Mapping[str, str], **where: Any) -> EngineProcess:
        started = real(name, argv, env, **where)
        tokens.append(started.token)
        os.kill(os.getpid(), number)  # nobody but this function knows the process yet
        return started

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EngineProcess, "start", start)
    before = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            start_golden(tmp_path)
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, before)
    (token,) = tokens
    assert not marked(token)
    assert live_notes() == ()


def test_the_note_is_there_before_the_process(
    tmp_path: Path, state_dir: Path, spawned: list[tuple[str, ...]]
) -> None:
    token = new_token()
    env = {**os.environ, "VLLM_PERF_ENGINE_TOKEN": token}
    started = EngineProcess.start("e", ["sleep", "60"], env, port=free_port(), log_path=tmp_path / "log")
    try:
        assert spawned == [(token,)]
    finally:
        started.stop(patience_s=0.5)
    assert live_notes() == ()


def test_what_cannot_be_started_leaves_no_note(tmp_path: Path, state_dir: Path) -> None:
    env = {**os.environ, "VLLM_PERF_ENGINE_TOKEN": new_token()}
    missing = str(tmp_path / "no such interpreter")
    with pytest.raises(FileNotFoundError):
        EngineProcess.start("e", [missing], env, port=free_port(), log_path=tmp_path / "log")
    assert live_notes() == ()


def test_in_another_thread_signals_are_left_alone() -> None:
    seen: list[Any] = []

    def look() -> None:
        before = signal.getsignal(signal.SIGINT)
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [True]
