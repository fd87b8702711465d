# SPDX-License-Identifier: Apache-2.0
"""Compare two sides metric by metric: regressed, improved, same or inconclusive, on the log scale."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vllm_perf.metrics.table import BY_NAME, METRICS
from vllm_perf.verdict.decision import decide
from vllm_perf.verdict.evidence import Evidence, evidence, pair_ratio, too_few, usable
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import Side
from vllm_perf.verdict.types import Change, Comparison
from vllm_perf.verdict.work import WorkDifference, differences


def compare_sides(base: Sequence[Side], head: Sequence[Side], policy: Policy) -> tuple[Comparison, ...]:
    """Compare every gating metric, and every other one that both sides have; pair i is (base[i], head[i]).

    A side that is not valid, or work that differs, makes every metric inconclusive.

    Raises:
        ValueError: there is no pair, or the sides differ in number.
    """
    _require_pairs(base, head)
    return _compare(_metrics(base, head), base, head, policy)


def compare_metric(metric: str, base: Sequence[Side], head: Sequence[Side], policy: Policy) -> Comparison:
    """Compare one metric alone, with no allowance for others being looked at.

    Raises:
        ValueError: there is no pair, or the sides differ in number.
    """
    _require_pairs(base, head)
    return _compare([metric], base, head, policy)[0]


def overall(comparisons: Iterable[Comparison]) -> Change:
    """Return the verdict over the gating metrics: the worst of them; no metric at all is inconclusive."""
    changes = {one.change for one in comparisons if one.gating}
    for change in (Change.REGRESSED, Change.INCONCLUSIVE, Change.IMPROVED, Change.SAME):
        if change in changes:
            return change
    return Change.INCONCLUSIVE


def aa_log_ratios(sides: Sequence[Side]) -> dict[str, list[float]]:
    """Return what boots of one engine say about its noise: metric to ln(second / first) of successive boots.

    Boots are taken two by two, each once, so that the ratios are independent; invalid boots are left out.
    """
    valid = [side for side in sides if not side.reasons]
    result: dict[str, list[float]] = {}
    for first, second in zip(valid[::2], valid[1::2], strict=False):
        for metric in METRICS:
            pair = pair_ratio(metric.name, first, second)
            if pair is not None:
                result.setdefault(metric.name, []).append(pair.log_ratio)
    return result


def _compare(
    names: Sequence[str], base: Sequence[Side], head: Sequence[Side], policy: Policy
) -> tuple[Comparison, ...]:
    other_work = differences([side.work for side in base], [side.work for side in head])
    blocked = _blocked(base, head, policy, other_work)
    if blocked:
        return tuple(_undecided(name, base, head, blocked) for name in names)
    found = {name: evidence(name, base, head, policy) for name in names}
    judged = decide({name: one for name, one in found.items() if isinstance(one, Evidence)}, policy)
    told = "; ".join(difference.sentence for difference in other_work)
    note = f"; expected, since the configurations differ: {told}" if told else ""
    return tuple(
        _weighed(replace(judged[name], reason=judged[name].reason + note), base, head)
        if name in judged
        else _undecided(name, base, head, str(found[name]))
        for name in names
    )


def _weighed(one: Comparison, base: Sequence[Side], head: Sequence[Side]) -> Comparison:
    """Return a comparison that cannot turn red where its percentile comes from too few requests."""
    few = too_few(one.metric, base, head)
    return one if few is None else replace(one, gating=False, reason=f"{one.reason}; {few}")


def _require_pairs(base: Sequence[Side], head: Sequence[Side]) -> None:
    if not base or len(base) != len(head):
        raise ValueError(
            f"a comparison needs as many heads as bases, one at least: got {len(base)} and {len(head)}"
        )


def _metrics(base: Sequence[Side], head: Sequence[Side]) -> list[str]:
    sides = (*base, *head)
    return [
        metric.name
        for metric in METRICS
        if metric.gating or all(usable(side.values.get(metric.name)) for side in sides)
    ]


def _blocked(
    base: Sequence[Side], head: Sequence[Side], policy: Policy, other_work: Sequence[WorkDifference]
) -> str:
    """Return why nothing may be compared, or nothing."""
    for name, sides in (("base", base), ("head", head)):
        reasons = [reason for side in sides for reason in side.reasons]
        if reasons:
            return f"{name} is not valid: {reasons[0]}"
    unexpected = [one for one in other_work if one.kind not in policy.expected_differences]
    if unexpected:
        return "different work: " + "; ".join(f"{one.kind}: {one.sentence}" for one in unexpected)
    return ""


def _undecided(name: str, base: Sequence[Side], head: Sequence[Side], reason: str) -> Comparison:
    metric = BY_NAME[name]
    return Comparison(
        metric=name,
        unit=metric.unit,
        change=Change.INCONCLUSIVE,
        base=base[0].values.get(name) if len(base) == 1 else None,
        head=head[0].values.get(name) if len(head) == 1 else None,
        ratio=None,
        low=None,
        high=None,
        allowed=0.0,
        floor=None,
        allowed_by="",
        pairs=len(base),
        missing_pairs=None,
        reason=reason,
        gating=metric.gating,
    )
