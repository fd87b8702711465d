# SPDX-License-Identifier: Apache-2.0
"""The rule that turns evidence into one of four verdicts.

regressed     "no change" is excluded, at Holm's level over the gating metrics, and the change is beyond the
              allowed one with 80 % confidence; the Hodges-Lehmann estimate lies beyond it too, and (from
              four pairs on) a permutation test agrees on the direction
improved      the same in the other direction
same          the two-sided interval lies within the allowed change
inconclusive  none of these; with the number of pairs after which, as things look, one of them holds

Two confidences, because two mistakes cost differently. An alarm when nothing changed is what makes people
switch a gate off: it is held to ``alpha`` for all metrics together. An alarm on a true change a little
smaller than allowed is a matter of taste; asking 95 % there too would hide a 5 % slowdown behind an
allowance of 3 %.
"""

import math
from collections.abc import Mapping

from vllm_perf.metrics.table import BY_NAME
from vllm_perf.verdict import statistics as stats
from vllm_perf.verdict import wording
from vllm_perf.verdict.evidence import Evidence
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Change, Comparison

# Four pairs have 16 sign patterns: below that the permutation test cannot speak.
PERMUTATION_PAIRS = 4
PERMUTATION_LEVEL = 0.10
LIKELY = 0.20


def decide(found: Mapping[str, Evidence], policy: Policy) -> dict[str, Comparison]:
    """Give each metric its verdict; the allowance for several looks is made over those that gate."""
    gating = {name: one for name, one in found.items() if BY_NAME[name].gating}
    alone = ({name: one} for name, one in found.items() if name not in gating)
    result: dict[str, Comparison] = {}
    for group in (gating, *alone):
        worse = stats.holm_levels({name: one.worse.p_above(0.0) for name, one in group.items()}, policy.alpha)
        better = stats.holm_levels(
            {name: one.worse.p_below(0.0) for name, one in group.items()}, policy.alpha
        )
        for name, one in group.items():
            result[name] = _judge(one, worse[name], better[name], policy)
    return result


def _judge(
    one: Evidence, worse: tuple[float, bool], better: tuple[float, bool], policy: Policy
) -> Comparison:
    low, high = one.worse.bound(policy.interval_alpha / 2)
    is_worse = worse[1] and one.worse.p_above(one.margin) <= LIKELY
    is_better = better[1] and one.worse.p_below(-one.margin) <= LIKELY
    doubt = _doubt(one, is_worse) if is_worse or is_better else ""
    change = Change.INCONCLUSIVE
    if (is_worse or is_better) and not doubt:
        change = Change.REGRESSED if is_worse else Change.IMPROVED
    elif -one.margin <= low and high <= one.margin:
        change = Change.SAME
    missing = missing_pairs(one, worse[0], policy) if change is Change.INCONCLUSIVE else 0
    return _comparison(one, change, (low, high), doubt, missing, policy)


def _doubt(one: Evidence, worse: bool) -> str:
    """Return why a flagged metric is not believed, or nothing."""
    robust = one.worse.hodges_lehmann if worse else -one.worse.hodges_lehmann
    p_value = one.worse.p_up if worse else one.worse.p_down
    if robust <= one.margin:
        return "the robust estimate does not reach the allowed change"
    if p_value is not None and one.worse.pairs >= PERMUTATION_PAIRS and p_value > PERMUTATION_LEVEL:
        return f"the pairs do not agree on the direction (permutation test p = {p_value:.2f})"
    return ""


def missing_pairs(one: Evidence, level: float, policy: Policy) -> int | None:
    """Return how many more pairs would decide if estimate and noise stay as they are.

    ``None``: more than ``policy.max_pairs`` in all.
    """
    done, sigma = one.worse.pairs, one.worse.error * math.sqrt(one.worse.pairs)
    for pairs in range(done + 1, policy.max_pairs + 1):
        assumed = math.isinf(one.worse.df) or pairs < 2
        df = float(pairs - 1) if assumed else one.worse.df + pairs - done
        error = sigma / math.sqrt(pairs)
        allowed, _ = policy.allowed_change(one.metric, one.base, pairs)
        margin, off = math.log1p(allowed), abs(one.worse.log_ratio)
        not_luck = off - stats.quantile_t(1 - level, df) * error > 0
        beyond = not_luck and off - stats.quantile_t(1 - LIKELY, df) * error > margin
        within = off + stats.quantile_t(1 - policy.interval_alpha / 2, df) * error <= margin
        if beyond or within:
            return pairs - done
    return None


def _comparison(
    one: Evidence,
    change: Change,
    bounds: tuple[float, float],
    doubt: str,
    missing: int | None,
    policy: Policy,
) -> Comparison:
    metric = BY_NAME[one.metric]
    low, high = wording.interval_of(one, *bounds)
    robust = one.worse.hodges_lehmann
    return Comparison(
        metric=one.metric,
        unit=metric.unit,
        change=change,
        base=one.base,
        head=one.head,
        ratio=wording.ratio_of(one, one.worse.log_ratio),
        low=low,
        high=high,
        allowed=one.allowed,
        floor=one.floor,
        allowed_by=one.allowed_by,
        pairs=one.worse.pairs,
        missing_pairs=missing,
        reason=wording.sentence(one, metric.unit, (low, high), change, policy)
        + (f"; not believed: {doubt}" if doubt else ""),
        gating=metric.gating,
        robust_ratio=wording.ratio_of(one, robust),
        p_permutation=one.worse.p_up if one.worse.log_ratio > 0 else one.worse.p_down,
        how=one.how,
    )
