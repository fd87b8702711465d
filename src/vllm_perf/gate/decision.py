# SPDX-License-Identifier: Apache-2.0
"""What a gate concludes: where each workload stands, and all of them together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vllm_perf.verdict.sequential import GateDecision, Next
from vllm_perf.verdict.types import Change, Comparison

EXIT_CODES = {Change.SAME: 0, Change.IMPROVED: 0, Change.REGRESSED: 1, Change.INCONCLUSIVE: 10}
EXIT_BROKEN_LAB = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where a gate stands, workload by workload."""

    workloads: Mapping[str, GateDecision]

    @property
    def change(self) -> Change:
        """Return the verdict of all: one regression is one; what is not known is never "same"."""
        return overall([state.change for state in self.workloads.values()])

    @property
    def open(self) -> tuple[str, ...]:
        """Return the workloads that want another pair; none once something is known to be slower."""
        if any(
            state.next is Next.STOP and state.change is Change.REGRESSED for state in self.workloads.values()
        ):
            return ()
        return tuple(name for name, state in self.workloads.items() if state.next is not Next.STOP)

    @property
    def missing_pairs(self) -> int | None:
        """Return how many more pairs would decide everything; ``None`` where nobody can say."""
        states = [state for state in self.workloads.values() if state.change is Change.INCONCLUSIVE]
        # Without a comparison (every pair spoiled) nobody can say how far off a verdict is.
        if any(state.missing_pairs is None or not state.comparisons for state in states):
            return None
        return max((state.missing_pairs or 0 for state in states), default=0)

    @property
    def reason(self) -> str:
        """Return what weighs most, in one sentence."""
        worst = next((name for name, state in self.workloads.items() if state.change is self.change), None)
        if worst is None:
            return "nothing was compared"
        deciding = deciding_comparison(self.workloads[worst])
        state = self.workloads[worst]
        return f"{worst}: {deciding.reason if deciding else state.reason}"

    def ended(self) -> "Decision":
        """Return the decision as it counts at the end: an unconfirmed flag is no verdict."""
        return Decision(workloads={name: _ended(state) for name, state in self.workloads.items()})


def overall(changes: Sequence[Change]) -> Change:
    """Return one word for all: regressed if any is, else inconclusive if any is, else improved or same."""
    for change in (Change.REGRESSED, Change.INCONCLUSIVE, Change.IMPROVED, Change.SAME):
        if change in changes:
            return change
    return Change.INCONCLUSIVE


def deciding_comparison(state: GateDecision) -> Comparison | None:
    """Return the gating metric that gave a workload its verdict."""
    gating = [one for one in state.comparisons if one.gating]
    return next((one for one in gating if one.change is state.change), None)


def _ended(state: GateDecision) -> GateDecision:
    if state.next is not Next.CONFIRM:
        return state
    why = "flagged, but no fresh pair was measured to confirm it"
    comparisons = tuple(
        replace(one, change=Change.INCONCLUSIVE, missing_pairs=1, reason=f"{one.reason}; {why}")
        if one.gating and one.change is Change.REGRESSED
        else one
        for one in state.comparisons
    )
    return replace(state, change=Change.INCONCLUSIVE, comparisons=comparisons, missing_pairs=1, reason=why)
