# SPDX-License-Identifier: Apache-2.0
"""Turn series into rows for pytest-benchmark: seconds, so that lower is always better there.

| unit of the series | a row's sample | Median column reads | OPS column reads |
|---|---|---|---|
| ``ms`` (and other times) | seconds | the metric in seconds | its reciprocal |
| ``…/s``, higher is better | seconds per token or request: 1 ÷ value | 1 ÷ value | the metric |
| gain and other ratios, higher is better | 1 ÷ value | time left of the baseline's | the gain |
| ``share``, higher is better | 1 − value | the share that was missed | - |
| anything else, lower is better | the value itself | the value | - |

Of a metric that *is* a median (its samples' median equals its value) the samples are the requests', so that
the Median column is the P50 and the histogram shows the distribution; of every other metric they are the
repetitions' values, so that the Median column shows the metric itself. ``extra_info`` has value and unit as
measured. A sample is never below 1 ns: pytest-benchmark's percentage check calls every change from 0 a
failure. A series without a finite sample (nothing measured, throughput 0) has no row; the record keeps it.
"""

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from vllm_perf.history.record import RunRecord, Series

Row = dict[str, Any]
SECONDS_IN = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SHARES = frozenset({"share"})
SMALLEST_S = 1e-9
NAMESPACE = "vllm_perf"


def benchmark_rows(record: RunRecord) -> list[Row]:
    """Return one row a series that has a number: ``name``, ``fullname``, ``group``, ``params``, ``param``,
    ``extra_info`` and ``samples`` (seconds).
    """
    rows = (row_of(series) for series in record.series)
    return [row for row in rows if row is not None]


def without_row(series: Iterable[Series]) -> list[str]:
    """Return one sentence for each series that cannot be a row."""
    return [f"{one.key}: {_why_not(one)}" for one in series if not row_samples(one)]


def row_of(series: Series) -> Row | None:
    """Return the row of one series, or ``None`` where it has no finite sample.

    The name depends on engine, workload and metric alone: not on the test's file, the root directory or a
    parameter's spelling, each of which would silently part a row from its baseline.
    """
    samples = row_samples(series)
    if not samples:
        return None
    param = f"{series.engine}-{series.workload}"
    return {
        "name": f"{series.metric}[{param}]",
        "fullname": f"{NAMESPACE}::{series.metric}[{param}]",
        "group": f"{series.workload} {series.metric}",
        "param": param,
        "params": {"engine": series.engine, "workload": series.workload, "metric": series.metric},
        "samples": samples,
        "extra_info": _extra_info(series),
    }


def row_samples(series: Series) -> tuple[float, ...]:
    """Return the row's samples in seconds, empty where the series has no finite one."""
    if series.value is None or not math.isfinite(series.value):
        return ()
    scale = scale_of(series)
    for candidate in (_requests(series), _replicates(series), (series.value,)):
        samples = tuple(scale(value) for value in candidate)
        if samples and all(math.isfinite(sample) for sample in samples):
            return tuple(max(sample, SMALLEST_S) for sample in samples)
    return ()


def scale_of(series: Series) -> Callable[[float], float]:
    """Return the function from the series' own unit to a row's seconds."""
    if series.unit in SECONDS_IN:
        factor = SECONDS_IN[series.unit]
        return lambda value: value * factor
    if series.direction == "lower":
        return lambda value: value
    if series.unit in SHARES:
        return lambda value: 1.0 - value
    return lambda value: 1.0 / value if value > 0 else math.inf


def _requests(series: Series) -> tuple[float, ...]:
    """Return the requests' values where the metric is their median, to one part in a billion."""
    pooled = tuple(value for repetition in series.samples for value in repetition)
    if not pooled or not all(math.isfinite(value) for value in pooled) or series.value is None:
        return ()
    return pooled if math.isclose(statistics.median(pooled), series.value, rel_tol=1e-9) else ()


def _replicates(series: Series) -> tuple[float, ...]:
    return tuple(value for value in series.replicates if value is not None)


def _extra_info(series: Series) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "unit": series.unit,
        "direction": series.direction,
        "value": series.value,
        "low": _finite(series.low),
        "high": _finite(series.high),
        "sent": series.sent,
        "ok": series.ok,
        "failed": series.failed,
        "status": str(series.status),
        "reasons": list(series.reasons),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _why_not(series: Series) -> str:
    if series.value is None:
        return "; ".join(series.reasons) or "nothing was measured"
    return f"{series.value:g} {series.unit} cannot be written as seconds"
