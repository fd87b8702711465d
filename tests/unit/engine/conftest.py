# SPDX-License-Identifier: Apache-2.0
"""Start fake engines: real processes with a known shape, so that the life cycle is tested without a boot."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vllm_perf.engine.command import OWNER_VARIABLE
from vllm_perf.engine.process import EngineProcess, free_port, new_token

SCRIPT = Path(__file__).parent / "fake_engine.py"
Start = Callable[[str], EngineProcess]


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep locks and notes of this test apart from the user's."""
    monkeypatch.setenv("VLLM_PERF_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def start(tmp_path: Path, state_dir: Path) -> Iterator[Start]:
    """Return a starter of fake engines; whatever a test leaves running is ended after it."""
    started: list[EngineProcess] = []

    def starter(mode: str) -> EngineProcess:
        port = free_port()
        argv = [sys.executable, str(SCRIPT), mode, str(port)]
        env = {**os.environ, OWNER_VARIABLE: new_token()}
        log = tmp_path / f"{mode}-{port}.log"
        started.append(EngineProcess.start(mode, argv, env, port=port, log_path=log))
        return started[-1]

    yield starter
    for process in started:
        process.stop(patience_s=0.5)
