# SPDX-License-Identifier: Apache-2.0
"""95 % intervals of one side's value: from repetitions, from batches of requests, from a share's count."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import norm, t

from vllm_perf.metrics.percentiles import Values

Interval = tuple[float | None, float | None]
NONE: Interval = (None, None)
CONFIDENCE = 0.95
MAX_BATCHES = 20
MIN_BATCHES = 4
MIN_BATCH = 4


def from_repetitions(value: float, repetitions: Sequence[float]) -> Interval:
    """Return the t interval around ``value``, its width taken from how much repetitions differ.

    Formula: value x/: exp(t(0.975, n - 1) s / sqrt(n)), s the standard deviation of the repetitions'
    logarithms (on the plain scale where one of them is not positive). None for fewer than two, or where
    one is infinite.
    """
    data = np.asarray(repetitions, dtype=np.float64)
    if data.size < 2 or not np.isfinite(data).all() or not math.isfinite(value):
        return NONE
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, data.size - 1)) / math.sqrt(data.size)
    if value > 0 and (data > 0).all():
        factor = math.exp(min(quantile * float(np.std(np.log(data), ddof=1)), 50.0))
        return value / factor, value * factor
    half = quantile * float(np.std(data, ddof=1))
    return value - half, value + half


def from_batches(value: float, values: Values, of: Callable[[Values], float]) -> Interval:
    """Return an interval of ``of`` (a mean, a percentile) within one repetition, by batch means.

    Requests that follow each other wait for the same things, so they are no independent draws. Batches of
    successive requests are nearly so: ``values`` is cut into up to 20 and their results are treated as
    repetitions. None for fewer than 4 batches of 4.
    """
    data = np.asarray(values, dtype=np.float64)
    count = min(MAX_BATCHES, data.size // MIN_BATCH)
    if count < MIN_BATCHES:
        return NONE
    return from_repetitions(value, [of(batch) for batch in np.array_split(data, count)])


def of_share(met: int, sent: int) -> Interval:
    """Return the Wilson interval of a share of requests; none where nothing was sent."""
    if not sent:
        return NONE
    z = float(norm.ppf((1 + CONFIDENCE) / 2))
    share = met / sent
    middle = (share + z * z / (2 * sent)) / (1 + z * z / sent)
    half = z / (1 + z * z / sent) * math.sqrt(share * (1 - share) / sent + z * z / (4 * sent * sent))
    return max(middle - half, 0.0), min(middle + half, 1.0)
