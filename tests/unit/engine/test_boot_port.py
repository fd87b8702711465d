# SPDX-License-Identifier: Apache-2.0
"""A port that somebody took between choosing and opening it: one more try elsewhere, then the truth."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_perf.engine.boot import BootSettings, boot
from vllm_perf.engine.errors import BootFailed
from vllm_perf.engine.process import free_port
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook

SPEC = EngineSpec(name="e", model="golden", platform="golden", boot_timeout_s=60)


class Booting:
    """Boot the golden engine on ports that are given, one a try."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._patch = patch

    def __call__(self, *ports: int) -> int:
        """Return the port that it serves on in the end."""
        given = iter(ports)
        self._patch.setattr("vllm_perf.engine.boot.free_port", lambda: next(given))
        settings = BootSettings(model_cache=self.folder, log_dir=self.folder, stop_patience_s=0.5)
        book = EngineBook(path=self.folder, engines={"e": SPEC}, ladders={}, models={})
        engine = boot(SPEC, book, settings, lambda _name, step, _elapsed_s: self.said.append(step))
        assert engine.process is not None
        port = engine.process.port
        engine.stop()
        return port


@pytest.fixture
def booting(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Booting:
    return Booting(tmp_path, monkeypatch)


@pytest.fixture
def taken() -> Iterator[int]:
    """Hold a port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_h78_a_taken_port_costs_one_more_try(booting: Booting, taken: int) -> None:
    other = free_port()
    assert booting(taken, other) == other
    assert "its port was taken: trying another" in booting.said


def test_h78_two_taken_ports_are_reported(booting: Booting, taken: int) -> None:
    with pytest.raises(BootFailed) as caught:
        booting(taken, taken, taken)
    assert caught.value.diagnosis.category is Category.PORT_IN_USE
    assert booting.said.count("its port was taken: trying another") == 1
