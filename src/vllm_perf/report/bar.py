# SPDX-License-Identifier: Apache-2.0
"""A comparison as a line of characters: interval, estimate and what is allowed, worse to the right."""

import math

from vllm_perf.verdict.types import Comparison

HALF = 10
LINE, INTERVAL, ESTIMATE, LIMIT, CROSSED, CENTRE = "·", "━", "●", "┊", "╋", "│"
BEYOND_LEFT, BEYOND_RIGHT = "◂", "▸"


def worse_logs(one: Comparison, direction: str) -> tuple[float, float, float] | None:
    """Return low end, estimate and high end on the log scale, turned so that up is worse.

    ``None`` where the comparison has no interval.
    """
    if one.ratio is None or one.low is None or one.high is None or min(one.low, one.ratio) <= 0:
        return None
    low, middle, high = (math.log(value) for value in (one.low, one.ratio, one.high))
    return (low, middle, high) if direction == "lower" else (-high, -middle, -low)


def scale_of(one: Comparison) -> float:
    """Return the half width of the picture on the log scale: twice what is allowed, 2 % at least."""
    return max(2 * math.log1p(one.allowed), math.log1p(0.02))


def bar(one: Comparison, direction: str) -> str:
    """Return 21 characters: ``·····┊····│━●━·┊·····`` is a change towards worse that stays within the limits.

    What lies beyond twice the allowed change is drawn at the edge, as an arrow.
    """
    logs = worse_logs(one, direction)
    cells = [LINE] * (2 * HALF + 1)
    limit = _place(math.log1p(one.allowed), scale_of(one))
    cells[HALF] = CENTRE
    for place in (-limit, limit):
        cells[HALF + place] = LIMIT
    if logs is None:
        return "".join(cells)
    low, middle, high = (_place(value, scale_of(one)) for value in logs)
    for place in range(low, high + 1):
        cells[HALF + place] = CROSSED if cells[HALF + place] == LIMIT else INTERVAL
    cells[HALF + middle] = ESTIMATE
    if abs(logs[1]) > scale_of(one):
        cells[HALF + middle] = BEYOND_RIGHT if logs[1] > 0 else BEYOND_LEFT
    return "".join(cells)


def _place(value: float, scale: float) -> int:
    return max(-HALF, min(HALF, round(value / scale * HALF)))
