# SPDX-License-Identifier: Apache-2.0
"""A lab of known truth for the gate's tests: it measures what it was told to and records every boot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_perf.gate.boot import Boot, Lab, Pair, Slot
from vllm_perf.gate.decision import Decision
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Decide, Runner
from vllm_perf.history.environment import Environment, Hardware, Software, Workload
from vllm_perf.history.record import Cell, Repetition, Series, Work
from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.sequential import GateDecision, Next, SideName
from vllm_perf.verdict.types import Change, Comparison

WHERE = Environment(hardware=Hardware(), software=Software(), workload=Workload(workload="chat", model="m"))
PROMPTS = tuple(f"p{number}" for number in range(8))
WORK = Work(prompt_tokens=800, output_tokens=128, finish_reasons={"length": 8})


def series(workload: str, metric: str, value: float, **more: Any) -> Series:
    """Return one metric of one boot."""
    throughput = metric.endswith("throughput")
    return Series(
        engine="e",
        workload=workload,
        metric=metric,
        unit="tokens/s" if throughput else "ms",
        direction="higher" if throughput else "lower",
        value=value,
        gating=True,
        replicates=(value,),
        **more,
    )


def cell(
    workload: str = "chat",
    ttft_ms: float = 100.0,
    invalid: Sequence[str] = (),
    telemetry: Mapping[str, float] | None = None,
) -> CellResult:
    """Return a cell of eight requests that all took ``ttft_ms`` to their first token, 10 ms a token after."""
    repetition = Repetition(sent=8, ok=8, prompt_ids=PROMPTS, work=WORK)
    return CellResult(
        engine="e",
        workload=workload,
        cell=Cell(
            engine="e",
            workload=workload,
            environment=WHERE,
            repetitions=(repetition,),
            telemetry=dict(telemetry or {}),
        ),
        series=(
            series(workload, "ttft_p50", ttft_ms, samples=((ttft_ms,) * 8,)),
            series(workload, "ttft_p95", ttft_ms),
            series(workload, "tpot_p50", 10.0, samples=((10.0,) * 8,)),
            series(workload, "output_throughput", 1000.0),
        ),
        invalid=tuple(invalid),
    )


Measure = Callable[[Slot], tuple[CellResult, ...]]


def plain(slot: Slot) -> tuple[CellResult, ...]:
    """Measure the same for both sides."""
    return tuple(cell(workload) for workload in slot.workloads)


@dataclass(slots=True, kw_only=True)
class FakeLab:
    """Measure by ``answer``; ``booted`` holds every slot in the order in which it was really booted."""

    answer: Measure = plain
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


def comparison(change: Change, missing: int | None = None, **more: Any) -> Comparison:
    """Return a comparison of TTFT P50 that ended so."""
    values: dict[str, Any] = {
        "metric": "ttft_p50",
        "unit": "ms",
        "base": 100.0,
        "head": 100.0,
        "ratio": 1.0,
        "low": 0.98,
        "high": 1.02,
        "allowed": 0.05,
        "floor": None,
        "allowed_by": "asked",
        "pairs": 3,
        "reason": f"it is {change}",
    }
    return Comparison(change=change, missing_pairs=missing, **(values | more))


def state(change: Change, step: Next = Next.STOP, missing: int | None = 0, **more: Any) -> GateDecision:
    """Return where one workload stands."""
    values: dict[str, Any] = {"comparisons": (comparison(change, missing),), "pairs": 3, "spoiled": 0}
    return GateDecision(next=step, change=change, missing_pairs=missing, **(values | more))


def decision(change: Change, step: Next = Next.STOP) -> Decision:
    """Return a decision over one workload."""
    return Decision(workloads={"chat": state(change, step)})


def after(pairs: int, then: Decision) -> Decide:
    """Return a judge that wants ``pairs`` pairs and then says ``then``."""
    wanting = decision(Change.INCONCLUSIVE, Next.MEASURE)
    return lambda measured: wanting if len(measured) < pairs else then


def runner(lab: Lab, journal: Journal, decide: Decide, limits: Limits | None = None) -> Runner:
    """Return a runner whose clock goes on by one second a look."""
    ticks = iter(range(1_000_000))
    return Runner(
        lab=lab,
        journal=journal,
        limits=limits or Limits(),
        decide=decide,
        say=lambda _: None,
        clock=lambda: float(next(ticks)),
        wall=lambda: 1_000.0,
    )


def boot(side: SideName = "base", pair: int = 0, started_s: float = 1_000.0, ttft_ms: float = 100.0) -> Boot:
    """Return a boot that took ten seconds."""
    slot = Slot(pair=pair, side=side, workloads=("chat",))
    return Boot(slot=slot, cells=(cell(ttft_ms=ttft_ms),), started_s=started_s, took_s=10.0)


def pair(base: CellResult, head: CellResult, number: int = 1) -> Pair:
    """Return a pair of these two cells."""
    sides: dict[SideName, CellResult] = {"base": base, "head": head}
    boots = {
        side: Boot(
            slot=Slot(pair=number - 1, side=side, workloads=(one.workload,)),
            cells=(one,),
            started_s=0.0,
            took_s=1.0,
        )
        for side, one in sides.items()
    }
    return Pair(base=boots["base"], head=boots["head"])
