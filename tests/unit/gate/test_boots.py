# SPDX-License-Identifier: Apache-2.0
"""Booting a side for the gate: afresh each time, under the device's lock, with nothing left behind."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.gate.golden_gate import BENCH
from vllm_perf.engine.boot import BootSettings
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import LabBusy
from vllm_perf.engine.lock import acquire
from vllm_perf.gate.lab import SideSpec, VllmBoots
from vllm_perf.spec.files import load_engines

ENGINES = """
[ladders.golden]
platform = "golden"
engines = ["slow", "quick"]
[engines.slow]
platform = "golden"
model = "golden"
flags = { ttft-ms = 20 }
[engines.quick]
extends = "slow"
flags = { ttft-ms = 10 }
"""


@pytest.fixture
def boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VllmBoots]:
    monkeypatch.setenv("VLLM_PERF_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "engines.toml").write_text(ENGINES)
    book = load_engines(tmp_path / "engines.toml")
    made = VllmBoots(
        sides={
            "base": SideSpec.choose(book, "@first", "golden", None),
            "head": SideSpec.choose(book, "@last", "golden", None),
        },
        bench=BENCH,
        settings=BootSettings(model_cache=tmp_path / "models", log_dir=tmp_path / "logs"),
        progress=lambda _engine, _step, _elapsed: None,
        say=lambda _: None,
        lock_wait_s=0,
    )
    yield made
    made.close()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def port_of(engine: Engine) -> int:
    assert engine.process is not None
    return engine.process.port


def test_each_boot_is_another_process_and_leaves_its_port_free(boots: VllmBoots, tmp_path: Path) -> None:
    pids = set()
    for _ in range(2):
        with boots("head") as engine:
            assert engine.process is not None
            port = port_of(engine)
            pids.add(engine.process.popen.pid)
            assert answers(port)
        assert not answers(port)
    assert len(pids) == 2
    assert len(list((tmp_path / "logs/head").iterdir())) == 2


def test_an_error_while_measuring_stops_the_engine_too(boots: VllmBoots) -> None:
    ports = []

    def measure_badly() -> None:
        with boots("base") as engine:
            ports.append(port_of(engine))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure_badly()
    assert not answers(ports[0])


def test_a_device_that_someone_else_holds_is_a_busy_lab(boots: VllmBoots) -> None:
    held = acquire(("golden",), wait_s=0, say=lambda _: None)
    with pytest.raises(LabBusy), boots("base"):
        pass
    held.release()


def test_the_first_and_last_rung_can_be_named_by_their_place(boots: VllmBoots) -> None:
    assert [boots.sides[side].engine.name for side in ("base", "head")] == ["slow", "quick"]
