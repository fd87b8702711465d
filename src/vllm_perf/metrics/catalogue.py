# SPDX-License-Identifier: Apache-2.0
"""Measure runs: every metric of the catalogue as a value with its interval, or the reason why not."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics import goodput, intervals, latency, throughput
from vllm_perf.metrics.intervals import NONE, Interval
from vllm_perf.metrics.measurement import Measurement, MetricUnavailable
from vllm_perf.metrics.percentiles import Values, mean, median, percentile, percentile_interval
from vllm_perf.metrics.table import METRICS, Metric
from vllm_perf.spec.workload import WorkloadSpec

SLICES = 10


def measure_all(runs: Sequence[Run], workload: WorkloadSpec) -> dict[str, Measurement]:
    """Measure every metric over ``runs``, the repetitions of one workload against one engine.

    Latencies are taken over the requests of all repetitions together, rates averaged over repetitions.
    Intervals come from how repetitions differ where there are two or more, else from the requests.
    """
    return {metric.name: measure(metric, runs, workload) for metric in METRICS}


def measure(metric: Metric, runs: Sequence[Run], workload: WorkloadSpec) -> Measurement:
    """Measure one metric over the repetitions ``runs``."""
    sent = sum(run.sent for run in runs)
    failed = sum(run.failed for run in runs)
    value: float | None = None
    samples: tuple[float, ...] = ()
    low, high = NONE
    unavailable = None
    try:
        value, samples, (low, high) = _take(metric, runs, workload)
    except MetricUnavailable as error:
        unavailable = str(error)
    return Measurement(
        metric=metric.name,
        unit=metric.unit,
        direction=metric.direction,
        value=value,
        samples=samples,
        sent=sent,
        ok=sent - failed,
        failed=failed,
        low=low,
        high=high,
        unavailable=unavailable,
        gating=metric.gating,
        estimated=metric.needs_tokens and not _counted(runs),
    )


def value_of(metric: Metric, run: Run, workload: WorkloadSpec) -> float:
    """Return one repetition's value of a metric.

    Raises:
        MetricUnavailable: it has none.
    """
    if metric.of_run is not None:
        return metric.of_run(run, workload)
    if not run.sent:
        raise MetricUnavailable("nothing was sent")
    return _statistic(metric, _population(metric, run.samples))


def _take(
    metric: Metric, runs: Sequence[Run], workload: WorkloadSpec
) -> tuple[float, tuple[float, ...], Interval]:
    if not runs:
        raise MetricUnavailable("nothing ran")
    if metric.kind in ("time", "gaps"):
        return _take_times(metric, runs, workload)
    values = [value_of(metric, run, workload) for run in runs]
    if metric.kind == "count":
        return _combine(metric, values), (), NONE
    if metric.kind == "share":
        met = sum(goodput.met_every_limit(sample, workload.slo) for run in runs for sample in run.samples)
        sent = sum(run.sent for run in runs)
        return met / sent, tuple(values), intervals.of_share(met, sent)
    value = mean(values)
    interval = intervals.from_repetitions(value, values) if len(runs) > 1 else _slices(runs[0], metric, value)
    return value, tuple(values), interval


def _take_times(
    metric: Metric, runs: Sequence[Run], workload: WorkloadSpec
) -> tuple[float, tuple[float, ...], Interval]:
    requests = [sample for run in runs for sample in run.samples]
    if not requests:
        raise MetricUnavailable("nothing was sent")
    population = _population(metric, requests)
    value = _statistic(metric, population)
    samples = tuple(population) if metric.kind == "time" else _median_gaps(requests)
    if len(runs) > 1:
        by_run = [value_of(metric, run, workload) for run in runs]
        interval = intervals.from_repetitions(value, by_run)
        if interval != NONE:
            return value, samples, interval
    if metric.kind == "time" and metric.quantile is not None:
        return value, samples, percentile_interval(population, metric.quantile)
    return value, samples, intervals.from_batches(value, population, lambda batch: _statistic(metric, batch))


def _population(metric: Metric, samples: Sequence[RequestSample]) -> Values:
    if metric.kind == "gaps":
        return latency.itl_ms(samples)
    assert metric.of is not None
    return latency.request_times_ms(samples, metric.of)


def _statistic(metric: Metric, population: Values) -> float:
    if metric.quantile is None:
        return mean(population)
    if not len(population) or not np.isfinite(population).any():
        raise MetricUnavailable("no request that succeeded has this time")
    return percentile(population, metric.quantile)


def _median_gaps(requests: Sequence[RequestSample]) -> tuple[float, ...]:
    """Return each request's median chunk gap: all gaps of a long run would fill the memory."""
    gaps = ((sample.ok, latency.chunk_gaps_ns(sample)) for sample in requests)
    return tuple(
        median(gap / latency.NS_PER_MS) if ok else float("inf") for ok, gap in gaps if not ok or gap.size
    )


def _combine(metric: Metric, values: Sequence[float]) -> float:
    if metric.combine == "sum":
        return math.fsum(values)
    return max(values) if metric.combine == "max" else mean(values)


def _counted(runs: Sequence[Run]) -> bool:
    try:
        throughput.require_counted(sample for run in runs for sample in run.samples)
    except MetricUnavailable:
        return False
    return True


def _slices(run: Run, metric: Metric, value: float) -> Interval:
    """Return the interval of a single repetition's rate from ten equal slices of its time."""
    if run.sent < 2 * SLICES or value <= 0:
        return NONE
    if metric.name.startswith("output"):
        rates = _token_rates(run)
    else:
        ends = [sample.last_token_ns for sample in run.samples if sample.ok and sample.last_token_ns]
        rates = np.histogram(ends, bins=SLICES, range=(run.started_ns, run.ended_ns))[0].astype(np.float64)
    middle = float(rates.mean())
    if middle <= 0:
        return NONE
    # The slices say how much the rate wavers, relative to itself; the value stays the run's own.
    return intervals.from_repetitions(value, (rates / middle * value).tolist())


def _token_rates(run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    edges = np.linspace(run.started_ns, run.ended_ns, SLICES + 1).astype(np.int64).tolist()
    windows = [throughput.Window(start_ns=a, end_ns=b) for a, b in itertools.pairwise(edges)]
    return np.array([throughput.output_tokens_within(run.samples, window) for window in windows])
