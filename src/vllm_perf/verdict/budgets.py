# SPDX-License-Identifier: Apache-2.0
"""Judge a measurement against an absolute limit, or its ratio to a baseline against a gain.

In this order:

1. any reason against the run, no value, or a value that leans on estimated tokens: no verdict;
2. the whole 95 % interval beyond the limit: fail (too few requests do not excuse that);
3. a percentile from fewer requests than it needs (P50 7, P90 44, P95 90, P99 459): no verdict;
4. the whole interval within the limit: pass;
5. it straddles the limit: pass where the value itself keeps the limit and there were at least as many
   requests as needed (30 where the metric is no percentile), else no verdict. A value beyond the limit
   never passes, and never fails while its interval still reaches the limit. A gain passes only with its
   whole interval: both sides' noise is in it, and "three times faster" is a claim, not a limit.

A measurement without samples is an exact count and is judged by its value alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_perf.metrics.measurement import Measurement
from vllm_perf.metrics.percentiles import needed_requests, percentile_of_name
from vllm_perf.metrics.reasons import InvalidReason
from vllm_perf.spec.budget import Budget
from vllm_perf.verdict.gain import Estimate, gain_over
from vllm_perf.verdict.types import BudgetVerdict, Status

ENOUGH_REQUESTS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A value on its way to a verdict; ends of the interval may be infinite."""

    value: float
    low: float
    high: float
    exact: bool
    sent: int
    needed: int
    is_percentile: bool
    is_gain: bool = False


def judge(
    budget: Budget,
    measurement: Measurement,
    baseline: Measurement | None = None,
    *,
    reasons: Sequence[InvalidReason] = (),
) -> BudgetVerdict:
    """Judge one measurement; ``baseline`` is the value of ``budget.relative_to``'s engine for a gain.

    ``reasons`` are those against the run, and against the baseline's where there is one.
    """
    try:
        return _judge(budget, measurement, baseline, reasons)
    except _NoVerdict as no:
        return _verdict(budget, Status.NO_VERDICT, measurement.value, _limit(budget), str(no))


class _NoVerdict(Exception):
    pass


def _judge(
    budget: Budget, measurement: Measurement, baseline: Measurement | None, reasons: Sequence[InvalidReason]
) -> BudgetVerdict:
    if reasons:
        raise _NoVerdict("; ".join(str(reason) for reason in reasons))
    _require_value(measurement)
    judged = _of_measurement(measurement)
    unit = measurement.unit
    if budget.relative_to is not None:
        judged, unit = _gain(measurement, baseline, budget.relative_to), f"x {budget.relative_to}"
    outcomes = [
        _against(judged, limit, unit, upper=upper)
        for limit, upper in ((budget.max, True), (budget.min, False))
        if limit is not None
    ]
    order = (Status.FAIL, Status.NO_VERDICT, Status.PASS)
    status, limit, reason = min(outcomes, key=lambda outcome: order.index(outcome[0]))
    return _verdict(budget, status, judged.value, limit, reason)


def _require_value(measurement: Measurement) -> None:
    if measurement.value is None or math.isnan(measurement.value):
        raise _NoVerdict(f"{measurement.metric} has no value: {measurement.unavailable or 'not measured'}")
    if measurement.estimated:
        raise _NoVerdict(
            f"{measurement.metric} leans on estimated token counts: the server sent no usage;"
            " ask for it with stream_options.include_usage"
        )


def _of_measurement(measurement: Measurement) -> _Judged:
    value = measurement.require()
    quantile = percentile_of_name(measurement.metric)
    exact = not measurement.samples
    return _Judged(
        value=value,
        low=value if exact else _or(measurement.low, -math.inf),
        high=value if exact else _or(measurement.high, math.inf),
        exact=exact,
        sent=measurement.sent,
        needed=ENOUGH_REQUESTS if quantile is None else needed_requests(quantile),
        is_percentile=quantile is not None,
    )


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _gain(measurement: Measurement, baseline: Measurement | None, name: str) -> _Judged:
    """Return how many times better the measurement is than the baseline's, with an interval.

    Formula: throughput / baseline throughput, or baseline time / time, with the interval of
    :func:`~vllm_perf.verdict.gain.gain_over`.
    """
    if baseline is None:
        raise _NoVerdict(f"no measurement of {name} to compare {measurement.metric} with")
    _require_value(baseline)
    after, before = _of_measurement(measurement), _of_measurement(baseline)
    if measurement.direction == "lower":
        after, before = before, after
    if not (0 < after.value < math.inf and 0 < before.value < math.inf):
        raise _NoVerdict(
            f"a gain needs two positive values: {measurement.metric} is {measurement.value:g}, that of {name}"
            f" {baseline.value:g}"
        )
    found = gain_over(_estimate(after), _estimate(before), measurement.metric)
    return replace(
        after,
        value=found.value,
        low=found.low,
        high=found.high,
        exact=False,
        is_gain=True,
        sent=min(after.sent, before.sent),
    )


def _estimate(judged: _Judged) -> Estimate:
    return Estimate(value=judged.value, low=judged.low, high=judged.high)


def _against(judged: _Judged, limit: float, unit: str, *, upper: bool) -> tuple[Status, float, str]:
    """Judge against one limit; ``upper``: the value must not be above it, else not below."""
    word = "at most" if upper else "at least"
    told = f"{_number(judged.value)} {unit}{_interval(judged)}, {word} {_number(limit)} is allowed"
    kept = judged.value <= limit if upper else judged.value >= limit
    beyond = judged.low > limit if upper else judged.high < limit
    within = judged.high <= limit if upper else judged.low >= limit
    enough = judged.exact or judged.sent >= judged.needed
    if beyond:
        return Status.FAIL, limit, told
    if judged.is_percentile and not enough:
        return Status.NO_VERDICT, limit, f"{told}: insufficient, {judged.sent} of {judged.needed} requests"
    if within:
        return Status.PASS, limit, told
    if kept and enough and not judged.is_gain:
        return Status.PASS, limit, f"{told}: close, the interval reaches the limit"
    why = "the interval reaches both sides" if enough else f"{judged.sent} requests are too few to tell"
    return Status.NO_VERDICT, limit, f"{told}: {why}; repeat it more often"


def _interval(judged: _Judged) -> str:
    if judged.exact:
        return ""
    low = "?" if math.isinf(judged.low) else _number(judged.low)
    high = "?" if math.isinf(judged.high) else _number(judged.high)
    return f" (95 % interval {low} to {high})"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _limit(budget: Budget) -> float | None:
    return budget.max if budget.max is not None else budget.min


def _verdict(
    budget: Budget, status: Status, value: float | None, limit: float | None, reason: str
) -> BudgetVerdict:
    return BudgetVerdict(status=status, metric=budget.metric, value=value, limit=limit, reason=reason)
