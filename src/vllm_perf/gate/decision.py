# SPDX-License-Identifier: Apache-2.0
"""What a gate concludes: one comparison a gating metric and workload, and all of them together."""

from collections.abc import Sequence
from dataclasses import dataclass

from vllm_perf.verdict.types import Change, Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVerdict:
    """One metric of one workload. ``confirmed`` is ``None`` where nothing had to be confirmed."""

    workload: str
    comparison: Comparison
    gating: bool = True
    confirmed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """All verdicts of a gate. ``unjudged`` says, per workload, why there is none at all.

    ``clear``: more pairs would not change a gating verdict. ``reason`` is one sentence with the numbers.
    """

    cells: tuple[CellVerdict, ...]
    unjudged: dict[str, str]
    clear: bool
    notes: tuple[str, ...] = ()

    @property
    def gating(self) -> tuple[CellVerdict, ...]:
        """Return the verdicts that decide."""
        return tuple(cell for cell in self.cells if cell.gating)

    @property
    def change(self) -> Change:
        """Return the verdict of all: one regression is one; what is not known is never "same"."""
        return overall([cell.comparison.change for cell in self.gating], bool(self.unjudged))

    @property
    def flagged(self) -> tuple[str, ...]:
        """Return the workloads in which a gating metric came out slower."""
        slow = (cell.workload for cell in self.gating if cell.comparison.change is Change.REGRESSED)
        return tuple(dict.fromkeys(slow))

    @property
    def missing_pairs(self) -> int | None:
        """Return how many more pairs would decide every gating metric; ``None`` where nobody can say."""
        open_cells = [cell for cell in self.gating if cell.comparison.change is Change.INCONCLUSIVE]
        missing = [cell.comparison.missing_pairs for cell in open_cells]
        if self.unjudged or None in missing:
            return None
        return max((count for count in missing if count is not None), default=0)

    @property
    def reason(self) -> str:
        """Return what weighs most, in one sentence."""
        if self.unjudged:
            workload, why = next(iter(self.unjudged.items()))
            return f"{workload} cannot be judged: {why}"
        worst = next((cell for cell in self.gating if cell.comparison.change is self.change), None)
        if worst is None:
            return "nothing was compared"
        return f"{worst.workload}, {worst.comparison.metric}: {worst.comparison.reason}"


def overall(changes: Sequence[Change], unjudged: bool) -> Change:
    """Return one word for all: regressed if any is, else inconclusive if any is, else improved or same."""
    if Change.REGRESSED in changes:
        return Change.REGRESSED
    if unjudged or not changes or Change.INCONCLUSIVE in changes:
        return Change.INCONCLUSIVE
    return Change.IMPROVED if Change.IMPROVED in changes else Change.SAME


EXIT_CODES = {Change.SAME: 0, Change.IMPROVED: 0, Change.REGRESSED: 1, Change.INCONCLUSIVE: 10}
EXIT_BROKEN_LAB = 11
