# SPDX-License-Identifier: Apache-2.0
"""How many times better one engine is than another, with an interval; budgets and reports share it."""

import math
from typing import NamedTuple

from vllm_perf.verdict.noise import GPU_BOOTS

Z_95 = 1.96


class Estimate(NamedTuple):
    """A positive value with its 95 % interval; an end that is unknown is 0 or infinite."""

    value: float
    low: float = 0.0
    high: float = math.inf


def gain_over(better: Estimate, worse: Estimate, metric: str) -> Estimate:
    """Return better ÷ worse, two values of ``metric``.

    Formula: the interval joins both sides' distances to their ends and how boots differ (as on a GPU, each
    side booted once) in quadrature on the log scale.
    """
    gain = better.value / worse.value
    boots = Z_95 * math.sqrt(2) * GPU_BOOTS.of(metric)
    down = math.hypot(_log(better.value, better.low), _log(worse.high, worse.value), boots)
    up = math.hypot(_log(better.high, better.value), _log(worse.value, worse.low), boots)
    return Estimate(value=gain, low=gain * math.exp(-down), high=gain * math.exp(up))


def _log(high: float, low: float) -> float:
    """Return ln(high / low), infinite where an end is unknown."""
    return math.log(high / low) if high < math.inf and low > 0 else math.inf
