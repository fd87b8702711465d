# SPDX-License-Identifier: Apache-2.0
"""Draw one comparison as a small bar: where the interval lies against what is allowed."""

from vllm_perf.verdict.types import Comparison

HALF = 8  # characters on each side of "no change"
SPAN = 4  # the bar reaches so many times the allowed change


def bar(one: Comparison) -> str:
    """Return a bar of 17 characters; the dots are the allowed change, the thick line the interval.

    Left is less, right is more. An end outside the bar is an arrow. Nothing to draw gives "".
    """
    if one.ratio is None or one.low is None or one.high is None or one.allowed <= 0:
        return ""
    cells = ["·" if abs(at) <= HALF / SPAN else "─" for at in range(-HALF, HALF + 1)]
    first, middle, last = (_place(ratio, one.allowed) for ratio in (one.low, one.ratio, one.high))
    for at in range(max(first, -HALF), min(last, HALF) + 1):
        cells[at + HALF] = "━"
    if last > HALF:
        cells[-1] = "▶"
    if first < -HALF:
        cells[0] = "◀"
    if -HALF <= middle <= HALF:
        cells[middle + HALF] = "●"
    return "".join(cells)


def _place(ratio: float, allowed: float) -> int:
    return round((ratio - 1) / allowed * HALF / SPAN)
