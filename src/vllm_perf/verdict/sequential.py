# SPDX-License-Identifier: Apache-2.0
"""The gate's logic without the gate: pairs measured so far in, what to do next and the verdict out.

Looking again after every pair gives luck more chances to raise an alarm. The chance of one, ``alpha``, is
therefore spent over the looks: after n of at most N pairs the share (n / N)^2 of it has been spent, and a
look is made at what was added since the last one. By the union bound all looks together err with at most
the whole, whatever the noise looks like. Intervals, and "same" with them, are those of a single look.

A flagged metric turns red only when the next pair, measured afresh, points the same way and the verdict
stands with it. Where nothing changed a fresh pair points either way, so that about half the flags are taken
back: the looks may spend twice ``alpha`` (``benchmarks/gate_power.py`` counts what is left).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from vllm_perf.metrics.table import BY_NAME
from vllm_perf.verdict.comparison import compare_sides, overall
from vllm_perf.verdict.evidence import pair_ratio
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import Side
from vllm_perf.verdict.types import Change, Comparison

Pair = tuple[Side, Side]
CONFIRMED = 2.0
SideName = Literal["base", "head"]


class Next(StrEnum):
    """Say what the gate does next."""

    MEASURE = "measure a pair"
    CONFIRM = "measure a fresh pair to confirm what was flagged"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan:
    """How many pairs: looked at from ``min_pairs`` on, at most ``max_pairs`` and one more to confirm.

    ``max_spoiled`` is how many pairs may be thrown away (throttled GPU, foreign traffic) before giving up.
    """

    min_pairs: int = 3
    max_pairs: int = 8
    max_spoiled: int = 3

    def __post_init__(self) -> None:
        """Refuse a plan that cannot be followed."""
        if not 2 <= self.min_pairs <= self.max_pairs:
            raise ValueError(f"2 <= min_pairs <= max_pairs, not {self.min_pairs} and {self.max_pairs}")

    def share(self, pairs: int) -> float:
        """Return the share of ``alpha`` that the look after ``pairs`` pairs may spend."""
        before = pairs - 1 if pairs > self.min_pairs else 0
        return (pairs**2 - before**2) / float(self.max_pairs**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """Where the gate stands.

    ``change`` is the verdict over the gating metrics (so far, unless ``next`` is STOP). ``pairs`` counts
    valid pairs, ``spoiled`` the others; ``missing_pairs`` is how many more would decide, ``None`` unknown.
    """

    next: Next
    change: Change
    comparisons: tuple[Comparison, ...]
    pairs: int
    spoiled: int
    missing_pairs: int | None
    flagged: tuple[str, ...] = ()
    reason: str = ""


def order_of_pair(index: int) -> tuple[SideName, SideName]:
    """Return which side of pair ``index`` boots first: A B, B A, A B, …, so that drift cancels."""
    return ("base", "head") if index % 2 == 0 else ("head", "base")


def decide_gate(pairs: Sequence[Pair], plan: GatePlan, policy: Policy) -> GateDecision:
    """Decide from all pairs in the order they were measured.

    The looks are replayed from the first, so that the answer depends on the pairs alone: a gate that was
    killed and resumed decides as one that was not.
    """
    valid = [pair for pair in pairs if not pair[0].reasons and not pair[1].reasons]
    spoiled = len(pairs) - len(valid)
    standing = _waiting(len(valid), plan)
    for count in range(plan.min_pairs, min(len(valid), plan.max_pairs) + 1):
        standing = _look(valid, count, plan, policy)
        if standing.next is not Next.MEASURE:
            break
    standing = replace(standing, spoiled=spoiled, pairs=len(valid))
    if standing.next is not Next.STOP and spoiled > plan.max_spoiled:
        return _give_up(standing, pairs)
    return standing


def _waiting(done: int, plan: GatePlan) -> GateDecision:
    return GateDecision(
        next=Next.MEASURE,
        change=Change.INCONCLUSIVE,
        comparisons=(),
        pairs=done,
        spoiled=0,
        missing_pairs=max(plan.min_pairs - done, 0),
        reason=f"{done} of at least {plan.min_pairs} pairs measured",
    )


def _look(valid: Sequence[Pair], count: int, plan: GatePlan, policy: Policy) -> GateDecision:
    """Look after ``count`` pairs, and at the fresh pair after them where something was flagged."""
    at_level = replace(policy, alpha=CONFIRMED * policy.alpha * plan.share(count))
    found = _compare(valid[:count], at_level)
    flagged = tuple(one.metric for one in found if one.gating and one.change is Change.REGRESSED)
    if flagged and len(valid) == count:
        return _decision(Next.CONFIRM, found, count, flagged)
    if flagged:
        again = _compare(valid[: count + 1], at_level)
        confirmed = tuple(name for name in flagged if _agrees(name, again, valid[count]))
        found = tuple(_unconfirmed(one, flagged, confirmed) for one in again)
        if confirmed:
            return _decision(Next.STOP, found, count + 1, confirmed)
    last = count >= plan.max_pairs
    open_metrics = [one for one in found if one.gating and one.change is Change.INCONCLUSIVE]
    return _decision(Next.STOP if last or not open_metrics else Next.MEASURE, found, count, ())


def _compare(pairs: Sequence[Pair], policy: Policy) -> tuple[Comparison, ...]:
    return compare_sides([base for base, _ in pairs], [head for _, head in pairs], policy)


def _agrees(metric: str, again: Sequence[Comparison], fresh: Pair) -> bool:
    """Tell whether a fresh pair confirms: worse by itself, and the verdict stands with it added."""
    alone = pair_ratio(metric, *fresh)
    if alone is None:
        return False
    worse = alone.log_ratio if BY_NAME[metric].direction == "lower" else -alone.log_ratio
    return worse > 0 and any(one.metric == metric and one.change is Change.REGRESSED for one in again)


def _unconfirmed(one: Comparison, flagged: Sequence[str], confirmed: Sequence[str]) -> Comparison:
    """Take back a flag, old or new, that no fresh pair has confirmed."""
    if not one.gating or one.change is not Change.REGRESSED or one.metric in confirmed:
        return one
    seen = "a fresh pair did not agree" if one.metric in flagged else "no fresh pair has confirmed it yet"
    return replace(one, change=Change.INCONCLUSIVE, reason=f"{one.reason}; flagged, but {seen}")


def _decision(
    step: Next, found: tuple[Comparison, ...], count: int, flagged: tuple[str, ...]
) -> GateDecision:
    change = overall(found)
    missing = [one.missing_pairs for one in found if one.gating and one.change is Change.INCONCLUSIVE]
    known = [number for number in missing if number is not None]
    return GateDecision(
        next=step,
        change=change,
        comparisons=found,
        pairs=count,
        spoiled=0,
        missing_pairs=max(known, default=0) if len(known) == len(missing) else None,
        flagged=flagged,
        reason=_reason(step, change, count, flagged),
    )


def _reason(step: Next, change: Change, count: int, flagged: Sequence[str]) -> str:
    if step is Next.CONFIRM:
        return f"{', '.join(flagged)} flagged after {count} pairs: a fresh pair must agree"
    if step is Next.MEASURE:
        return f"not decided after {count} pairs"
    confirmed = f" ({', '.join(flagged)}, confirmed by a fresh pair)" if flagged else ""
    return f"{change} after {count} pairs{confirmed}"


def _give_up(standing: GateDecision, pairs: Sequence[Pair]) -> GateDecision:
    reasons = [reason for pair in pairs for side in pair for reason in side.reasons]
    return replace(
        standing,
        next=Next.STOP,
        change=Change.INCONCLUSIVE,
        reason=f"{standing.spoiled} pairs were not valid; the last: {reasons[-1]}",
    )
