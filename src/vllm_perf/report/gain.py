# SPDX-License-Identifier: Apache-2.0
"""How many times better one rung is than another, with its interval."""

import math
from dataclasses import dataclass

from vllm_perf.history.record import Series
from vllm_perf.verdict.noise import DEFAULT_BOOT_SIGMA

Z_95 = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A ratio above 1 is better; ``low`` and ``high`` are its 95 % interval where both sides have one."""

    value: float
    low: float | None = None
    high: float | None = None


def gain(head: Series | None, base: Series | None) -> Gain | None:
    """Return head ÷ base of a rate, base ÷ head of a time; ``None`` where a side has no positive value.

    The interval takes both sides' distances to their ends and how boots differ (2 % each, booted once) in
    quadrature on the log scale, as the gain budgets do.
    """
    better, worse = (base, head) if head is not None and head.direction == "lower" else (head, base)
    if better is None or worse is None or not (_positive(better.value) and _positive(worse.value)):
        return None
    assert better.value is not None
    assert worse.value is not None
    value = better.value / worse.value
    down = _distance((better.value, better.low), (worse.high, worse.value))
    up = _distance((better.high, better.value), (worse.value, worse.low))
    if down is None or up is None:
        return Gain(value=value)
    return Gain(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def _distance(*ends: tuple[float | None, float | None]) -> float | None:
    """Return the joint distance on the log scale of pairs (upper, lower), ``None`` where one is unknown."""
    logs = [2**0.5 * Z_95 * DEFAULT_BOOT_SIGMA]
    for upper, lower in ends:
        if upper is None or lower is None or not (_positive(upper) and _positive(lower)):
            return None
        logs.append(math.log(upper / lower))
    return math.hypot(*logs)


def _positive(value: float | None) -> bool:
    return value is not None and 0 < value < math.inf
