# SPDX-License-Identifier: Apache-2.0
"""The statistics that pytest-benchmark stores with a row, so that its own tools can read a record."""

import statistics
from collections.abc import Sequence
from typing import Any


def row_stats(samples_s: Sequence[float]) -> dict[str, Any]:
    """Return pytest-benchmark's statistics of ``samples_s`` (seconds, finite, at least one).

    Quartiles are the mean of the two usual ones (middle value left out, middle value counted in), fences
    lie 1.5 interquartile ranges outside, ``ops`` is rounds ÷ total: what its schema means by these names.

    Raises:
        ValueError: there are no samples.
    """
    if not samples_s:
        raise ValueError("no samples: a row needs at least one")
    data = sorted(samples_s)
    q1, q3 = _quartiles(data)
    iqr = q3 - q1
    low, high = q1 - 1.5 * iqr, q3 + 1.5 * iqr
    mean = statistics.mean(data)
    stddev = statistics.stdev(data) if len(data) > 1 else 0
    far = sum(not mean - stddev <= value <= mean + stddev for value in data)
    outside = sum(not low <= value <= high for value in data)
    total = sum(samples_s)
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(data),
        "median": statistics.median(data),
        "iqr": iqr,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": outside,
        "stddev_outliers": far,
        "outliers": f"{far};{outside}",
        "ld15iqr": next(value for value in data if value >= low),
        "hd15iqr": next(value for value in reversed(data) if value <= high),
        "ops": len(data) / total if total else 0,
        "total": total,
        "iterations": 1,
    }


def _quartiles(data: Sequence[float]) -> tuple[float, float]:
    half = len(data) // 2
    if len(data) == 1 or len(data) % 2 == 0:
        return statistics.median(data[: max(half, 1)]), statistics.median(data[-max(half, 1) :])
    return (
        (statistics.median(data[:half]) + statistics.median(data[: half + 1])) / 2,
        (statistics.median(data[-half:]) + statistics.median(data[-half - 1 :])) / 2,
    )
