# SPDX-License-Identifier: Apache-2.0
"""Small pictures for the page: a comparison's interval, and two distributions as shares of requests."""

import math
from collections.abc import Sequence

from vllm_perf.report import words
from vllm_perf.report.bar import scale_of, worse_logs
from vllm_perf.report.model import ComparisonRow, Distribution

INTERVAL_WIDTH, INTERVAL_HEIGHT = 220, 26
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 420, 200, 34, 28, 8
MOST_POINTS = 200


def interval_svg(row: ComparisonRow) -> str:
    """Return a comparison's interval against the allowed band, worse to the right; "" without an interval."""
    logs = worse_logs(row.comparison, row.direction)
    if logs is None:
        return ""
    scale = scale_of(row.comparison) * 1.05

    def x(value: float) -> float:
        clipped = max(-scale, min(scale, value))
        return round((clipped / scale + 1) / 2 * INTERVAL_WIDTH, 1)

    limit = math.log1p(row.comparison.allowed)
    low, middle, high = (x(value) for value in logs)
    y = INTERVAL_HEIGHT / 2
    return (
        f'<svg class="interval" viewBox="0 0 {INTERVAL_WIDTH} {INTERVAL_HEIGHT}" role="img"'
        f' aria-label="{words.change(row.comparison.ratio)}">'
        f'<rect class="band" x="{x(-limit)}" y="2" width="{x(limit) - x(-limit):.1f}"'
        f' height="{INTERVAL_HEIGHT - 4}"/>'
        f'<line class="axis" x1="{x(0)}" y1="0" x2="{x(0)}" y2="{INTERVAL_HEIGHT}"/>'
        f'<line class="whisker {row.comparison.change}" x1="{low}" y1="{y}" x2="{high}" y2="{y}"/>'
        f'<circle class="dot {row.comparison.change}" cx="{middle}" cy="{y}" r="4.5"/></svg>'
    )


def distribution_svg(one: Distribution) -> str:
    """Return the share of requests (upwards) that were at most as slow as (to the right), base and head."""
    lowest, highest = min(one.base[0], one.head[0]), max(one.base[-1], one.head[-1])
    span = (highest - lowest) or 1.0

    def point(value: float, share: float) -> str:
        x = LEFT + (value - lowest) / span * (WIDTH - LEFT - 8)
        y = TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)
        return f"{x:.1f},{y:.1f}"

    lines = [
        f'<polyline class="{name}" points="{" ".join(point(*step) for step in _steps(values))}"/>'
        for name, values in (("base", one.base), ("head", one.head))
    ]
    marks = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{_y(share)}" y2="{_y(share)}"/>'
        f'<text x="{LEFT - 4}" y="{_y(share) + 4}" text-anchor="end">P{share * 100:.0f}</text>'
        for share in (0.5, 0.95)
    ]
    ends = (
        f'<text x="{LEFT}" y="{HEIGHT - 8}">{words.number(lowest)}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{words.number(highest)} {one.unit}</text>'
    )
    return (
        f'<svg class="distribution" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"{''.join(marks)}{''.join(lines)}{ends}</svg>"
    )


def _y(share: float) -> float:
    return round(TOP + (1 - share) * (HEIGHT - TOP - BOTTOM), 1)


def _steps(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the corners of the empirical distribution, thinned out to a few hundred."""
    every = max(1, len(values) // MOST_POINTS)
    places = [*range(0, len(values), every), len(values) - 1]
    steps: list[tuple[float, float]] = []
    below = 0.0
    for place in dict.fromkeys(places):
        share = (place + 1) / len(values)
        steps += [(values[place], below), (values[place], share)]
        below = share
    return steps
