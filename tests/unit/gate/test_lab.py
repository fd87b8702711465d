# SPDX-License-Identifier: Apache-2.0
"""The gate end to end, on golden engines: booted in turn, measured over HTTP, judged by the real rules."""

import contextlib
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.gate import golden_gate
from tests.unit.gate.golden_gate import SLOWER, GoldenBoots, golden_lab, run_gate
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.install import Install
from vllm_perf.gate.boot import Slot
from vllm_perf.gate.lab import SideSpec
from vllm_perf.gate.plan import Limits
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook
from vllm_perf.spec.target import Target
from vllm_perf.verdict.types import Change


def test_a_slower_head_is_flagged_confirmed_and_red(tmp_path: Path) -> None:
    boots = GoldenBoots(**SLOWER)
    outcome = run_gate(tmp_path, boots, Limits(min_pairs=3, max_pairs=4))
    state = outcome.decision.workloads["chat"]
    assert outcome.decision.change is Change.REGRESSED
    assert "ttft_p50" in state.flagged
    assert (len(boots.booted), boots.alive) == (2 * len(outcome.pairs), 0)


def test_a_faster_head_is_never_called_slower(tmp_path: Path) -> None:
    outcome = run_gate(tmp_path, GoldenBoots(base=200.0, head=20.0), Limits(min_pairs=2, max_pairs=2))
    assert outcome.decision.change in (Change.IMPROVED, Change.INCONCLUSIVE)


def test_each_boot_leaves_a_cell_of_its_own_and_one_a_workload() -> None:
    lab = golden_lab(GoldenBoots(base=10.0, head=10.0))
    cells = lab.measure(Slot(pair=0, side="base", workloads=("chat",)))
    assert [cell.workload for cell in cells] == [BOOT, "chat"]
    assert cells[1].find("ttft_p50") is not None


def boots_in(folder: Path) -> int:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    return sum(line.startswith(b'{"boot":') for line in lines)


def kill_after(boots: int, folder: Path) -> None:
    """Start a gate as a process of its own and kill it once so many boots are in its journal."""
    gate = subprocess.Popen([sys.executable, golden_gate.__file__, str(folder)], cwd=Path.cwd())
    deadline = time.monotonic() + 60
    try:
        while boots_in(folder) < boots and time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                gate.wait(0.02)
        assert gate.poll() is None, "the gate ended before it could be killed"
    finally:
        gate.kill()
        gate.wait()


def test_killed_with_sigkill_and_started_again_it_measures_only_what_is_missing(tmp_path: Path) -> None:
    kill_after(3, tmp_path)
    kept = boots_in(tmp_path)
    boots = GoldenBoots(**SLOWER)
    outcome = run_gate(tmp_path, boots, Limits(min_pairs=4, max_pairs=4))
    assert kept >= 3
    assert outcome.resumed_boots == kept
    assert kept + len(boots.booted) == 2 * len(outcome.pairs)


@dataclass
class DeadProcess:
    """Stand for an engine's processes: ``exit_code`` of the server, ``gone`` parts, the log they left."""

    exit_code: int | None = None
    gone: tuple[int, ...] = ()

    def look(self) -> int | None:
        return self.exit_code

    def dead_parts(self) -> tuple[int, ...]:
        return self.gone

    def log_text(self) -> str:
        return "INFO:     Application startup complete.\n"

    @property
    def pids(self) -> frozenset[int]:
        return frozenset()

    def stop(self) -> None:
        """Nothing is left to stop."""


def serving(process: DeadProcess) -> Engine:
    nobody = Target(base_url="http://127.0.0.1:9/v1", model="golden")
    return Engine(spec=EngineSpec(name="e", model="golden"), target=nobody, process=process)  # type: ignore[arg-type]


def measured_on(engine: Engine) -> tuple[CellResult, ...]:
    lab = golden_lab(GoldenBoots())
    lab.boots = lambda _: nullcontext(engine)
    return lab.measure(Slot(pair=0, side="head", workloads=("chat",)))


@pytest.mark.parametrize("process", [DeadProcess(exit_code=-9), DeadProcess(gone=(4711,))])
def test_an_engine_that_died_while_serving_is_that_cells_failure(process: DeadProcess) -> None:
    failure = measured_on(serving(process))[1].failure
    assert failure is not None
    assert failure.startswith("TOO_MANY_FAILED: ENGINE_DIED")


def test_a_server_that_lives_and_refuses_is_not_called_dead() -> None:
    with pytest.raises(SpecError):
        measured_on(serving(DeadProcess()))


def side(**engine: object) -> SideSpec:
    spec = EngineSpec.model_validate({"name": "e", "model": "m", **engine})
    book = EngineBook(path=Path("engines.toml"), engines={}, ladders={}, models={})
    install = Install(python="python", distribution="vllm", version="0.33.0", torch="2.11")
    return SideSpec(engine=spec, book=book, install=install)


def test_a_sides_facts_hold_what_is_compared_and_no_key() -> None:
    facts = side(
        flags={"api-key": "sk-planted", "max-num-batched-tokens": 2048},
        env={"HF_TOKEN": "hf-planted", "VLLM_API_KEY": "sk-planted", "VLLM_CPU_KVCACHE_SPACE": "1"},
    ).facts()
    assert "planted" not in str(facts)
    assert facts["engine"]["flags"] == {"max-num-batched-tokens": 2048}
    assert facts["engine"]["env"] == {"VLLM_CPU_KVCACHE_SPACE": "1"}


def test_another_flag_or_another_vllm_is_another_comparison() -> None:
    plain = side().facts()
    assert side(flags={"enforce-eager": True}).facts() != plain
    assert side(python="/opt/venv/bin/python").facts() != plain
    assert side(title="only a title").facts() == plain
