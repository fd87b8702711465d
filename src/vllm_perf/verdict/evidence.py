# SPDX-License-Identifier: Apache-2.0
"""What pairs of boots say about one metric: a log ratio a pair, and the estimate over pairs.

A pair's ratio is taken prompt by prompt where a median is compared and both sides answered the same
prompts, else value by value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vllm_perf.metrics.percentiles import needed_requests, percentile_of_name
from vllm_perf.metrics.table import BY_NAME
from vllm_perf.verdict import statistics as stats
from vllm_perf.verdict.noise import ASSUMED_PAIRS
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import PAIRED, Side

BY_PROMPT = "prompt by prompt"
BY_VALUE = "value by value"
# From this many pairs on they carry their own noise; fewer lean on a learnt or assumed floor.
OWN_NOISE_PAIRS = 3
# Of fewer waves of a closed loop, sent once, nobody can say how the next ones would differ.
MIN_WAVES = 4
# How the sentence of a metric begins that cannot turn red.
SHOWN_ONLY = "shown, not judged: "
# Student's quantiles with more degrees of freedom are the normal ones to a percent.
AS_GOOD_AS_KNOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRatio:
    """One pair: ln(head / base), and how it was taken."""

    log_ratio: float
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One metric's estimate, turned so that up is worse, with what it is held against.

    ``base`` and ``head`` are geometric means over boots, in the metric's unit.
    """

    metric: str
    base: float
    head: float
    worse: stats.Estimate
    allowed: float
    allowed_by: str
    floor: float | None
    how: str

    @property
    def margin(self) -> float:
        """Return the allowed change on the log scale."""
        return math.log1p(self.allowed)

    @property
    def lower_is_better(self) -> bool:
        """Tell the metric's direction."""
        return BY_NAME[self.metric].direction == "lower"


def usable(value: float | None) -> bool:
    """Tell whether a value has a logarithm."""
    return value is not None and 0 < value < math.inf


def pair_ratio(metric: str, base: Side, head: Side) -> PairRatio | None:
    """Compare one pair on one metric; ``None`` where a side has no usable value."""
    before, after = base.values.get(metric), head.values.get(metric)
    if before is None or after is None or not (usable(before) and usable(after)):
        return None
    time = metric.removesuffix("_p50")
    if metric.endswith("_p50") and time in PAIRED:
        ratios = stats.prompt_log_ratios(base.by_prompt.get(time, {}), head.by_prompt.get(time, {}))
        if ratios is not None:
            return PairRatio(log_ratio=stats.typical(ratios), how=BY_PROMPT)
    return PairRatio(log_ratio=math.log(after / before), how=BY_VALUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """What one pair's requests alone account for: the error of its log ratio, and its degrees of freedom."""

    error: float
    df: float


def within_pair(metric: str, base: Side, head: Side) -> Within:
    """Return what the requests of one pair alone make its log ratio uncertain by.

    Taken over the prompts that both sides answered, so that what the prompts themselves differ by, which
    both sides share, is not noise; a rate is as uncertain as the requests' whole times. Without common
    prompts it is what both sides' own intervals stand for. Where there are repetitions it is at least what
    those differ by: requests that were sent at once share one burst, and thousands of them are one event.
    """
    known = BY_NAME[metric]
    time = "e2el" if known.kind == "rate" else metric.rsplit("_", 1)[0]
    repetitions = _repetitions(time, base, head)
    df = 2.0 * (repetitions - 1) if repetitions > 1 else math.inf
    between = math.hypot(base.spread.get(metric, 0.0), head.spread.get(metric, 0.0))
    both = stats.common_times(base.by_prompt.get(time, {}), head.by_prompt.get(time, {}))
    if both is None:
        return Within(error=between, df=df)
    typical = known.kind == "rate" or metric.endswith("_p50")
    at_once = max(base.at_once, head.at_once)
    found = (
        stats.batch_error(*both, at_once)
        if typical
        else stats.resampled_error(*both, known.quantile, at_once)
    )
    if found is not None and repetitions == 1:
        return Within(error=found, df=df)
    return Within(error=max(found or 0.0, between), df=df)


def _repetitions(time: str, base: Side, head: Side) -> int:
    """Return how often each boot sent the prompts behind a value."""
    prompts = [len(side.by_prompt.get(time, {})) for side in (base, head)]
    if not all(prompts):
        return 1
    pairs = zip((base, head), prompts, strict=True)
    return max(min(round(side.work.sent / count) for side, count in pairs), 1)


def too_few(metric: str, base: Sequence[Side], head: Sequence[Side]) -> str | None:
    """Return why a metric cannot turn red: too few requests a side, or too few bursts, to mean anything.

    The P95 of ten requests is their slowest one; a single hiccup would be a regression. And 128 requests of
    which 64 are always under way are two bursts, however many requests that is.
    """
    return _one_burst(base, head) or _few_requests(metric, base, head)


def _one_burst(base: Sequence[Side], head: Sequence[Side]) -> str | None:
    """Tell of single boots that sent few waves once: what repetitions, or other boots, show, they cannot."""
    if len(base) > 1:
        return None
    for side in (*base, *head):
        waves = side.work.sent / side.at_once
        if side.at_once > 1 and side.repetitions == 1 and waves < MIN_WAVES:
            return (
                f"{SHOWN_ONLY}{side.work.sent} requests at {side.at_once} at once, sent once, are"
                f" {waves:.3g} bursts; give the workload repetitions, or at least {MIN_WAVES} times as many"
                " requests as run at once"
            )
    return None


def _few_requests(metric: str, base: Sequence[Side], head: Sequence[Side]) -> str | None:
    quantile = percentile_of_name(metric)
    if quantile is None:
        return None
    needed = needed_requests(quantile)
    sent = min(sum(side.work.sent for side in sides) for sides in (base, head))
    if sent >= needed:
        return None
    return f"{SHOWN_ONLY}{metric} needs {needed} requests a side, {sent} were sent"


def evidence(metric: str, base: Sequence[Side], head: Sequence[Side], policy: Policy) -> Evidence | str:
    """Return one metric's evidence, or the sentence that says why there is none."""
    found = [pair_ratio(metric, one, other) for one, other in zip(base, head, strict=True)]
    pairs = [pair for pair in found if pair is not None]
    if len(pairs) < len(found):
        return _why_missing(metric, base, head)
    sign = 1.0 if BY_NAME[metric].direction == "lower" else -1.0
    before, after = _middle(metric, base), _middle(metric, head)
    allowed, allowed_by = policy.allowed_change(metric, before, len(pairs))
    floor = policy.learnt(metric)
    return Evidence(
        metric=metric,
        base=before,
        head=after,
        worse=stats.estimate([sign * pair.log_ratio for pair in pairs], _prior(metric, base, head, policy)),
        allowed=allowed,
        allowed_by=allowed_by,
        floor=floor.share(len(pairs)) if floor else None,
        how=pairs[0].how,
    )


def _prior(metric: str, base: Sequence[Side], head: Sequence[Side], policy: Policy) -> stats.Prior | None:
    """Return what is known of one pair's noise beside the pairs: learnt or assumed, and what today shows.

    Formula: with repetitions the error within a pair has two times (repetitions - 1) degrees of freedom a
    pair; added to what is assumed of boots (known exactly) they grow by (total / within)^2 (Satterthwaite).
    """
    floor = policy.learnt(metric)
    if len(base) >= OWN_NOISE_PAIRS:
        return stats.Prior(sigma=floor.sigma, df=float(floor.weight)) if floor is not None else None
    both = list(zip(base, head, strict=True))
    found = [within_pair(metric, one, other) for one, other in both]
    within = math.fsum(one.error**2 for one in found) / len(found)
    df = math.fsum(one.df for one in found)
    if floor is not None:
        learnt = floor.cautious_sigma
        calm = within <= learnt**2 or math.isinf(df)
        sigma = learnt if calm else math.sqrt(within)
        return stats.Prior(sigma=sigma, df=float(floor.weight + ASSUMED_PAIRS) if calm else df)
    # Never the requests' own spread alone: they do not know how boots differ.
    total = 2 * policy.boots.of(metric) ** 2 + within
    grown = df * (total / within) ** 2 if within else math.inf
    return stats.Prior(sigma=math.sqrt(total), df=grown if grown < AS_GOOD_AS_KNOWN else math.inf)


def _middle(metric: str, sides: Sequence[Side]) -> float:
    return math.exp(math.fsum(math.log(side.values[metric]) for side in sides) / len(sides))


def _why_missing(metric: str, base: Sequence[Side], head: Sequence[Side]) -> str:
    for name, sides in (("base", base), ("head", head)):
        for side in sides:
            if not usable(side.values.get(metric)):
                seen = side.unavailable.get(metric) or f"its value is {side.values.get(metric)}"
                return f"{name} has no usable {metric}: {seen}"
    return f"{metric} is missing"
