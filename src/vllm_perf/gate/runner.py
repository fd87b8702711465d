# SPDX-License-Identifier: Apache-2.0
"""Run a gate: pair after pair until the verdict is clear or a limit is reached, then confirm the slow."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vllm_perf.gate.boot import Boot, Lab, Pair, Phase, Slot, usable
from vllm_perf.gate.decision import Decision
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.plan import Limits, slots
from vllm_perf.gate.spoiled import passes_by_itself, spoiled

Decide = Callable[[Sequence[Pair], Sequence[Pair] | None], Decision]
"""Judge the main pairs, and the fresh ones that are to confirm them (``None``: not asked for yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a gate ended: the decision, the pairs it rests on, and ``stopped``: why no more were measured."""

    decision: Decision
    pairs: tuple[Pair, ...]
    confirming: tuple[Pair, ...]
    stopped: str
    resumed_boots: int
    spoiled: tuple[str, ...]
    took_s: float


@dataclass(slots=True, kw_only=True)
class Runner:
    """Measure and decide. ``clock`` is monotonic seconds, ``wall`` a label; both are parameters for tests."""

    lab: Lab
    journal: Journal
    limits: Limits
    decide: Decide
    workloads: tuple[str, ...]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    _started: float = 0.0
    _spoiled: list[str] = field(default_factory=list)

    def run(self) -> Outcome:
        """Return the outcome.

        Raises:
            LabError: a side cannot be booted or measured; what was measured until then stays in the journal.
        """
        self._started = self.clock()
        if self.journal.resumed:
            self.say(f"going on with {self.journal.resumed} boots measured before ({self.journal.path})")
        stopped = self._main()
        final = self.decide(self.journal.pairs("main"), None)
        confirming: list[Pair] = []
        if final.flagged and self.limits.confirm_pairs:
            stopped = self._confirm(final, stopped)
            confirming = self.journal.pairs("confirm")
            final = self.decide(self.journal.pairs("main"), confirming)
        self.journal.close(str(final.change))
        return Outcome(
            decision=final,
            pairs=tuple(self.journal.pairs("main")),
            confirming=tuple(confirming),
            stopped=stopped,
            resumed_boots=self.journal.resumed,
            spoiled=tuple(self._spoiled),
            took_s=self.clock() - self._started,
        )

    def _main(self) -> str:
        pair = 0
        while True:
            reason = self._enough(pair)
            if reason is not None:
                return reason
            self._pair("main", pair, ())
            pair += 1

    def _enough(self, done: int) -> str | None:
        """Return why no further pair is measured, ``None`` while one is wanted."""
        pairs = self.journal.pairs("main")[:done]
        if done and not any(usable(pairs, workload) for workload in self.workloads):
            return f"nothing that was measured is worth judging: {'; '.join(self._spoiled[-2:])}"
        if done >= self.limits.min_pairs:
            decision = self.decide(pairs, None)
            if decision.clear:
                return f"the verdict was clear after {done} pairs"
            self.say(f"{done} pairs: {decision.change}, {decision.reason}")
        if done >= self.limits.max_pairs:
            return f"the limit of {self.limits.max_pairs} pairs was reached"
        return self._out_of_time()

    def _out_of_time(self) -> str | None:
        minutes = self.limits.max_minutes
        if minutes is None:
            return None
        known = [*self.journal.pairs("main"), *self.journal.pairs("confirm")]
        next_s = max((pair.took_s for pair in known), default=0.0)
        if self.clock() - self._started + next_s > minutes * 60:
            return f"another pair ({next_s:.0f} s) would have passed the limit of {minutes:g} minutes"
        return None

    def _confirm(self, decision: Decision, stopped: str) -> str:
        flagged = decision.flagged
        self.say(
            f"{', '.join(flagged)} came out slower: {self.limits.confirm_pairs} fresh pairs to confirm it"
        )
        for pair in range(self.limits.confirm_pairs):
            late = self._out_of_time()
            if late is not None:
                return f"{stopped}; not confirmed, because {late}"
            self._pair("confirm", pair, flagged)
        return stopped

    def _pair(self, phase: Phase, pair: int, workloads: tuple[str, ...]) -> None:
        for attempt in range(self.limits.retries + 1):
            one = self._attempt(phase, pair, attempt, workloads)
            reasons = spoiled(one)
            if not reasons:
                return
            self._spoiled += [f"pair {pair + 1}: {reason}" for reason in reasons]
            if attempt == self.limits.retries or not passes_by_itself(reasons):
                return
            self.say(f"pair {pair + 1} is measured again: {reasons[0]}")

    def _attempt(self, phase: Phase, pair: int, attempt: int, workloads: tuple[str, ...]) -> Pair:
        first, second = slots(phase, pair, attempt, workloads)
        if self.journal.find(first) is not None and self.journal.find(second) is None:
            self._drop_stale(first)
        boots = {slot.side: self.journal.find(slot) or self._boot(slot) for slot in (first, second)}
        return Pair(base=boots["base"], head=boots["head"])

    def _drop_stale(self, first: Slot) -> None:
        if self.journal.fresh_half(first, self.wall()) is None:
            self.say(f"pair {first.pair + 1} was cut in half too long ago: both sides are measured again")
            self.journal.drop(first)

    def _boot(self, slot: Slot) -> Boot:
        self.say(f"{slot.phase} pair {slot.pair + 1}: booting {slot.side}")
        started, wall = self.clock(), self.wall()
        cells = self.lab.measure(slot)
        boot = Boot(slot=slot, cells=cells, started_s=wall, took_s=self.clock() - started)
        self.journal.add(boot)
        return boot
