# SPDX-License-Identifier: Apache-2.0
"""Run a gate: pair after pair, until every workload has its verdict or a limit is reached."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vllm_perf.gate.boot import Boot, Lab, Pair, Slot
from vllm_perf.gate.decision import Decision
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.spoiled import spoiled
from vllm_perf.verdict.sequential import SideName, order_of_pair
from vllm_perf.verdict.types import Change

Decide = Callable[[Sequence[Pair]], Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a gate ended: the decision, the pairs it rests on, and ``stopped``: why no more were measured."""

    decision: Decision
    pairs: tuple[Pair, ...]
    stopped: str
    resumed_boots: int
    took_s: float

    @property
    def spoiled(self) -> tuple[str, ...]:
        """Return what made pairs worthless, a sentence each."""
        return tuple(
            f"pair {pair.number}, {workload}, {reason}"
            for pair in self.pairs
            for workload in self.decision.workloads
            for reason in spoiled(pair, workload)
        )


@dataclass(slots=True, kw_only=True)
class Runner:
    """Measure and decide. ``clock`` is monotonic seconds, ``wall`` a label; both are parameters for tests."""

    lab: Lab
    journal: Journal
    limits: Limits
    decide: Decide
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def run(self) -> Outcome:
        """Return the outcome.

        Raises:
            LabError: a side cannot be booted or measured; what was measured until then stays in the journal.
        """
        started = self.clock()
        if self.journal.resumed:
            self.say(f"going on with {self.journal.resumed} boots measured before ({self.journal.path})")
        stopped = self._measure(started)
        decision = self.decide(self.journal.pairs()).ended()
        self.journal.close(str(decision.change))
        return Outcome(
            decision=decision,
            pairs=tuple(self.journal.pairs()),
            stopped=stopped,
            resumed_boots=self.journal.resumed,
            took_s=self.clock() - started,
        )

    def _measure(self, started: float) -> str:
        """Measure pairs; return why it is enough."""
        while True:
            pairs = self.journal.pairs()
            decision = self.decide(pairs)
            if not decision.open:
                return self._why_enough(decision, len(pairs))
            late = self._late(started, pairs)
            if late is not None:
                return late
            if pairs:
                self.say(f"{len(pairs)} pairs: {decision.change}; {decision.reason}")
            self._pair(len(pairs), decision.open)

    def _why_enough(self, decision: Decision, pairs: int) -> str:
        if decision.change is not Change.INCONCLUSIVE:
            return f"decided after {pairs} pairs"
        if any(state.pairs >= self.limits.max_pairs for state in decision.workloads.values()):
            return f"the limit of {self.limits.max_pairs} pairs was reached"
        return f"measuring on after {pairs} pairs would not help"

    def _late(self, started: float, pairs: Sequence[Pair]) -> str | None:
        minutes = self.limits.max_minutes
        if minutes is None:
            return None
        next_s = max((pair.took_s for pair in pairs), default=0.0)
        if self.clock() - started + next_s > minutes * 60:
            return f"another pair ({next_s:.0f} s) would have passed the limit of {minutes:g} minutes"
        return None

    def _pair(self, pair: int, workloads: tuple[str, ...]) -> None:
        half = self.journal.half(pair, self.wall())
        if half is not None:
            workloads = half.slot.workloads
        for side in order_of_pair(pair):
            if half is None or half.slot.side != side:
                self._boot(pair, side, workloads)

    def _boot(self, pair: int, side: SideName, workloads: tuple[str, ...]) -> None:
        slot = Slot(pair=pair, side=side, workloads=workloads)
        self.say(f"pair {pair + 1}: booting {side}")
        started, wall = self.clock(), self.wall()
        cells = self.lab.measure(slot)
        self.journal.add(Boot(slot=slot, cells=cells, started_s=wall, took_s=self.clock() - started))
