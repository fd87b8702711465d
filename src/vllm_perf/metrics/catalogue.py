# SPDX-License-Identifier: Apache-2.0
"""Measure runs: every metric of the catalogue as a value with its interval, or the reason why not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    taken = _Taken(runs=runs)
    return {metric.name: measure(metric, runs, workload, taken) for metric in METRICS}


@dataclass(slots=True, kw_only=True)
class _Taken:
    """What requests of ``runs`` took, each kind of time taken once for all of its statistics."""

    runs: Sequence[Run]
    times: dict[latency.RequestTime | None, tuple[list[Values], Values]] = field(default_factory=dict)

    def of(self, metric: Metric) -> tuple[list[Values], Values]:
        """Return one population a repetition, and all of them together."""
        if metric.of not in self.times:
            by_run = [_population(metric, run.samples) for run in self.runs]
            pooled = by_run[0] if len(by_run) == 1 else np.concatenate(by_run)
            self.times[metric.of] = by_run, pooled if metric.kind == "gaps" else tuple(map(float, pooled))
        return self.times[metric.of]


def measure(
    metric: Metric, runs: Sequence[Run], workload: WorkloadSpec, taken: _Taken | None = None
) -> Measurement:
    """Measure one metric over the repetitions ``runs``."""
    sent = sum(run.sent for run in runs)
    failed = sum(run.failed for run in runs)
    value: float | None = None
    samples: tuple[float, ...] = ()
    low, high = NONE
    unavailable = None
    try:
        value, samples, (low, high) = _take(metric, runs, workload, taken or _Taken(runs=runs))
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
    metric: Metric, runs: Sequence[Run], workload: WorkloadSpec, taken: _Taken
) -> tuple[float, tuple[float, ...], Interval]:
    if not runs:
        raise MetricUnavailable("nothing ran")
    if metric.kind in ("time", "gaps"):
        return _take_times(metric, taken)
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


def _take_times(metric: Metric, taken: _Taken) -> tuple[float, tuple[float, ...], Interval]:
    if not any(run.sent for run in taken.runs):
        raise MetricUnavailable("nothing was sent")
    by_run, pooled = taken.of(metric)
    value = _statistic(metric, pooled)
    samples = pooled if isinstance(pooled, tuple) else _median_gaps(taken.runs)
    interval = _between_repetitions(metric, value, by_run)
    if interval != NONE:
        return value, samples, interval
    if metric.kind == "time" and metric.quantile is not None:
        return value, samples, percentile_interval(pooled, metric.quantile)
    return value, samples, intervals.from_batches(value, pooled, lambda batch: _statistic(metric, batch))


def _between_repetitions(metric: Metric, value: float, by_run: Sequence[Values]) -> Interval:
    try:
        return intervals.from_repetitions(value, [_statistic(metric, population) for population in by_run])
    except MetricUnavailable:
        return NONE  # a repetition in which everything failed: the pooled requests still say something


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


def _median_gaps(runs: Sequence[Run]) -> tuple[float, ...]:
    """Return each request's median chunk gap: all gaps of a long run would fill the memory."""
    gaps = ((sample.ok, latency.chunk_gaps_ns(sample)) for run in runs for sample in run.samples)
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
        edges = np.linspace(run.started_ns, run.ended_ns, SLICES + 1).astype(np.int64)
        rates = throughput.output_tokens_between(run.samples, edges)
    else:
        ends = [sample.last_token_ns for sample in run.samples if sample.ok and sample.last_token_ns]
        rates = np.histogram(ends, bins=SLICES, range=(run.started_ns, run.ended_ns))[0].astype(np.float64)
    middle = float(rates.mean())
    if middle <= 0:
        return NONE
    # The slices say how much the rate wavers, relative to itself; the value stays the run's own.
    return intervals.from_repetitions(value, (rates / middle * value).tolist())
