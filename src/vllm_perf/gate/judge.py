# SPDX-License-Identifier: Apache-2.0
"""Judge pairs of boots: every metric of every workload, and whether fresh pairs confirm what came out slower."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vllm_perf.gate.boot import SIDES, Pair, usable
from vllm_perf.gate.decision import CellVerdict, Decision
from vllm_perf.gate.sides import side_of
from vllm_perf.gate.spoiled import unlike_clocks
from vllm_perf.metrics.table import BY_NAME
from vllm_perf.verdict.comparison import compare_sides
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import Side
from vllm_perf.verdict.types import Change, Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How pairs are judged: ``policies`` by workload (their noise floors differ), ``workloads`` in order.

    ``confirm``: a metric is red only when fresh pairs say so too.
    """

    workloads: tuple[str, ...]
    policies: Mapping[str, Policy] = field(default_factory=dict)
    confirm: bool = True

    def __call__(self, pairs: Sequence[Pair], fresh: Sequence[Pair] | None) -> Decision:
        """Return the decision over ``pairs``; ``fresh`` is ``None`` as long as nothing has been confirmed."""
        cells: list[CellVerdict] = []
        unjudged: dict[str, str] = {}
        for workload in self.workloads:
            kept = _judgeable(pairs, workload)
            if not kept:
                unjudged[workload] = _why_none(pairs, workload)
                continue
            cells += self._workload(workload, kept, None if fresh is None else _judgeable(fresh, workload))
        return Decision(cells=tuple(cells), unjudged=unjudged, clear=_clear(cells, unjudged))

    def _workload(
        self, workload: str, pairs: Sequence[Pair], fresh: Sequence[Pair] | None
    ) -> list[CellVerdict]:
        policy = self.policies.get(workload, Policy())
        first = _compare(pairs, workload, policy)
        slower = {one.metric for one in first if one.gating and one.change is Change.REGRESSED}
        if fresh is None or not slower or not self.confirm:
            return [CellVerdict(workload=workload, comparison=one, gating=one.gating) for one in first]
        every = {one.metric: one for one in _compare([*pairs, *fresh], workload, policy)}
        anew = {one.metric: one for one in _compare(fresh, workload, policy)} if fresh else {}
        return [
            _confirmed(workload, every[one.metric], anew.get(one.metric))
            if one.metric in slower
            else CellVerdict(workload=workload, comparison=every[one.metric], gating=one.gating)
            for one in first
        ]


def sides(pairs: Sequence[Pair], workload: str) -> tuple[list[Side], list[Side]]:
    """Return the two sides of each pair on one workload: bases, heads.

    Raises:
        ValueError: a pair lacks the workload.
    """
    found: list[list[Side]] = [[], []]
    for pair in pairs:
        for which, side in enumerate(SIDES):
            cell = pair.side(side).cell(workload)
            if cell is None:
                raise ValueError(f"pair {pair.slot.pair + 1} has no {workload}")
            found[which].append(side_of(cell))
    return found[0], found[1]


def _judgeable(pairs: Sequence[Pair], workload: str) -> list[Pair]:
    return [pair for pair in usable(pairs, workload) if not unlike_clocks(pair, workload)]


def _compare(pairs: Sequence[Pair], workload: str, policy: Policy) -> tuple[Comparison, ...]:
    base, head = sides(pairs, workload)
    return compare_sides(base, head, policy)


def _confirmed(workload: str, every: Comparison, anew: Comparison | None) -> CellVerdict:
    """Return a flagged metric's verdict: red if all pairs together and the fresh ones alone both say so."""
    if anew is None or anew.ratio is None:
        why = "flagged, but no fresh pair could be measured to confirm it"
        confirmed = False
    else:
        worse = 1 / anew.ratio if BY_NAME[anew.metric].direction == "higher" else anew.ratio
        confirmed = every.change is Change.REGRESSED and worse > 1 + every.allowed
        seen = f"{anew.pairs} fresh pairs say {anew.ratio - 1:+.1%}"
        why = f"confirmed: {seen}" if confirmed else f"flagged, but not confirmed: {seen}"
    change = Change.REGRESSED if confirmed else Change.INCONCLUSIVE
    missing = every.missing_pairs if every.change is Change.INCONCLUSIVE else None
    told = replace(every, change=change, missing_pairs=missing, reason=f"{every.reason}; {why}")
    return CellVerdict(workload=workload, comparison=told, gating=every.gating, confirmed=confirmed)


def _clear(cells: Sequence[CellVerdict], unjudged: Mapping[str, str]) -> bool:
    """Tell whether more pairs would change nothing: something is slower, or nothing is open that could close.

    A comparison without a ratio was refused (other work, a missing value): more of the same will not help.
    """
    gating = [cell.comparison for cell in cells if cell.gating]
    if any(one.change is Change.REGRESSED for one in gating):
        return True
    still_open = [one for one in gating if one.change is Change.INCONCLUSIVE and one.ratio is not None]
    return not still_open and not unjudged


def _why_none(pairs: Sequence[Pair], workload: str) -> str:
    reasons = [
        reason
        for pair in pairs
        for side in SIDES
        if (cell := pair.side(side).cell(workload)) is not None
        for reason in (*cell.invalid, *((cell.failure,) if cell.failure else ()))
    ]
    clocks = [sentence for pair in usable(pairs, workload) for sentence in unlike_clocks(pair, workload)]
    return next(iter([*reasons, *clocks]), "no pair of it was measured")
