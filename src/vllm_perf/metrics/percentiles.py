# SPDX-License-Identifier: Apache-2.0
"""The one percentile of the whole project, its interval, and how many requests it needs."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from vllm_perf.metrics.measurement import MetricUnavailable

Values = Sequence[float] | NDArray[np.float64]


def percentile(values: Values, quantile: float) -> float:
    """Return the value below which the share ``quantile`` (0..1) of ``values`` lies.

    Formula: linear interpolation between the two order statistics around (n - 1) * quantile, counted
    from 0 (definition 7 of Hyndman and Fan 1996). ``inf`` (a failed request) sorts last, and a percentile
    that leans on one at all is ``inf``.

    Raises:
        MetricUnavailable: there are no values.
        ValueError: ``quantile`` is outside 0..1 or a value is NaN.
    """
    if not 0.0 <= quantile <= 1.0:
        raise ValueError(f"a quantile lies between 0 and 1, not {quantile}")
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        raise MetricUnavailable("a percentile of no values")
    if np.isnan(data).any():
        raise ValueError("a percentile of values that are not numbers")
    position = (data.size - 1) * quantile
    below = math.floor(position)
    share = position - below
    above = below + 1 if share > 0 else below
    ordered = np.partition(data, (below, above))
    low, high = float(ordered[below]), float(ordered[above])
    if math.isinf(high):
        return high
    return low + share * (high - low)


def median(values: Values) -> float:
    """Return the 50th percentile.

    Raises:
        MetricUnavailable: there are no values.
    """
    return percentile(values, 0.5)


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean of the finite values: those of requests that succeeded.

    Raises:
        MetricUnavailable: no value is finite.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        raise MetricUnavailable("a mean of no values")
    return math.fsum(finite) / len(finite)


def needed_requests(quantile: float, confidence: float = 0.99) -> int:
    """Return how many requests, none above the limit, make "this percentile keeps the limit" believable.

    Formula: the smallest n with quantile ** n <= 1 - confidence, that is
    ceil(ln(1 - confidence) / ln(quantile)): were the percentile above the limit, n requests would all
    stay below it by luck with at most that probability. P50 7, P90 44, P95 90, P99 459.
    """
    if not 0.0 < quantile < 1.0:
        raise ValueError(f"a quantile lies between 0 and 1, not {quantile}")
    return math.ceil(math.log(1.0 - confidence) / math.log(quantile))


def percentile_interval(
    values: Values, quantile: float, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """Return the distribution-free interval of a percentile, from order statistics.

    Formula: how many of n independent values lie below the true percentile is binomial (n, quantile), so
    the order statistics at its (1 -/+ confidence) / 2 quantiles bracket it with at least ``confidence``.
    A side for which there is no order statistic (too few values that far out) is ``None``: unbounded.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    if data.size == 0:
        return None, None
    tail = (1.0 - confidence) / 2.0
    lower = int(binom.ppf(tail, data.size, quantile)) - 1
    upper = int(binom.ppf(1.0 - tail, data.size, quantile))
    low = float(data[lower]) if lower >= 0 else None
    high = float(data[upper]) if upper < data.size else None
    return low, high


def percentile_of_name(metric: str) -> float | None:
    """Return the quantile that a metric's name ends in (``ttft_p95`` gives 0.95), else ``None``."""
    suffix = metric.rsplit("_", 1)[-1]
    if suffix.startswith("p") and suffix[1:].isdigit() and 0 < int(suffix[1:]) < 100:
        return int(suffix[1:]) / 100.0
    return None
