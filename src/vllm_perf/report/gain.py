# SPDX-License-Identifier: Apache-2.0
"""How many times better one rung is than another, with its interval."""

import math
from dataclasses import dataclass

from vllm_perf.history.record import Series
from vllm_perf.verdict.gain import Estimate, gain_over


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A ratio above 1 is better; ``low`` and ``high`` are its 95 % interval where both sides have one."""

    value: float
    low: float | None = None
    high: float | None = None


def gain(head: Series | None, base: Series | None) -> Gain | None:
    """Return head ÷ base of a rate, base ÷ head of a time; ``None`` where a side has no positive value.

    The interval is the one that gain budgets are judged by.
    """
    better, worse = (base, head) if head is not None and head.direction == "lower" else (head, base)
    after, before = _estimate(better), _estimate(worse)
    if head is None or after is None or before is None:
        return None
    found = gain_over(after, before, head.metric)
    if found.low == 0 or found.high == math.inf:
        return Gain(value=found.value)
    return Gain(value=found.value, low=found.low, high=found.high)


def _estimate(series: Series | None) -> Estimate | None:
    value = None if series is None else _positive(series.value)
    if series is None or value is None:
        return None
    return Estimate(value, low=_positive(series.low) or 0.0, high=_positive(series.high) or math.inf)


def _positive(value: float | None) -> float | None:
    """Return a value that a ratio may be taken of, else ``None``."""
    return value if value is not None and 0 < value < math.inf else None
