# SPDX-License-Identifier: Apache-2.0
"""A lab of known truth for the gate's tests: it measures what it was told to and records every boot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_perf.gate.boot import Boot, Lab, Pair, Side, Slot
from vllm_perf.gate.decision import CellVerdict, Decision
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Decide, Runner
from vllm_perf.history.environment import Environment, Hardware, Software, Workload
from vllm_perf.history.record import Cell, Series
from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.types import Change, Comparison

WHERE = Environment(hardware=Hardware(), software=Software(), workload=Workload(workload="chat", model="m"))


def cell(
    workload: str = "chat",
    ttft_ms: float = 100.0,
    invalid: Sequence[str] = (),
    telemetry: Mapping[str, float] | None = None,
) -> CellResult:
    """Return a cell with one metric."""
    series = Series(
        engine="e",
        workload=workload,
        metric="ttft_p50",
        unit="ms",
        direction="lower",
        value=ttft_ms,
        replicates=(ttft_ms,),
    )
    return CellResult(
        engine="e",
        workload=workload,
        cell=Cell(engine="e", workload=workload, environment=WHERE, telemetry=dict(telemetry or {})),
        series=(series,),
        invalid=tuple(invalid),
    )


Measure = Callable[[Slot], tuple[CellResult, ...]]


@dataclass(slots=True, kw_only=True)
class FakeLab:
    """Measure by ``answer``; ``booted`` holds every slot in the order in which it was really booted."""

    answer: Measure = lambda slot: (cell(),)
    booted: list[Slot] = field(default_factory=list)
    closed: bool = False

    def measure(self, slot: Slot) -> tuple[CellResult, ...]:
        """Boot and measure."""
        self.booted.append(slot)
        return self.answer(slot)

    def identity(self) -> dict[str, Any]:
        """Return the same for every fake lab."""
        return {"what": "fake"}

    def close(self) -> None:
        """Remember that the device was given back."""
        self.closed = True

    @property
    def order(self) -> str:
        """Return the sides booted, as one word: ``ABBA``."""
        return "".join("A" if slot.side == "base" else "B" for slot in self.booted)


def comparison(change: Change, missing: int | None = None) -> Comparison:
    """Return a comparison of TTFT P50 that ended so."""
    return Comparison(
        metric="ttft_p50",
        unit="ms",
        change=change,
        base=100.0,
        head=100.0,
        ratio=1.0,
        low=0.98,
        high=1.02,
        allowed=0.05,
        floor=None,
        allowed_by="user",
        pairs=3,
        missing_pairs=missing,
        reason=f"it is {change}",
    )


def decision(change: Change, *, clear: bool = True, workload: str = "chat") -> Decision:
    """Return a decision over one metric of one workload."""
    verdict = CellVerdict(workload=workload, comparison=comparison(change))
    return Decision(cells=(verdict,), unjudged={}, clear=clear)


def deciding(*decisions: Decision) -> Decide:
    """Return a judge that says the decisions one after the other, the last one for ever."""
    left = list(decisions)

    def decide(_pairs: Sequence[Pair], _fresh: Sequence[Pair] | None) -> Decision:
        return left.pop(0) if len(left) > 1 else left[0]

    return decide


def runner(lab: Lab, journal: Journal, decide: Any, **limits: Any) -> Runner:
    """Return a runner whose clock goes on by one second a look."""
    ticks = iter(range(1_000_000))
    return Runner(
        lab=lab,
        journal=journal,
        limits=Limits(**limits),
        decide=decide,
        workloads=("chat",),
        say=lambda _: None,
        clock=lambda: float(next(ticks)),
        wall=lambda: 1_000.0,
    )


def boot(side: Side = "base", pair: int = 0, *, started_s: float = 1_000.0, **slot: Any) -> Boot:
    """Return a boot that took ten seconds."""
    at = replace(Slot(phase="main", pair=pair, side=side), **slot)
    return Boot(slot=at, cells=(cell(),), started_s=started_s, took_s=10.0)
