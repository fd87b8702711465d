# SPDX-License-Identifier: Apache-2.0
"""Requests that met every limit: a second, and as a share of those sent."""

from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics.latency import NS_PER_MS, RequestTime, e2el_ns, tpot_ns, ttft_ns
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.metrics.throughput import run_window
from vllm_perf.spec.workload import SloSpec


def met_every_limit(sample: RequestSample, slo: SloSpec) -> bool:
    """Tell whether a request succeeded within every limit; an answer of one token has no TPOT to miss."""
    return (
        sample.ok
        and _within(sample, ttft_ns, slo.ttft_ms, absent=False)
        and _within(sample, tpot_ns, slo.tpot_ms, absent=True)
        and _within(sample, e2el_ns, slo.e2el_ms, absent=False)
    )


def goodput(run: Run, slo: SloSpec) -> float:
    """Return requests/s. Formula: requests that met every limit / run duration.

    Raises:
        MetricUnavailable: the workload sets no limit, or the run has no duration.
    """
    return _met(run, slo) / run_window(run).seconds


def slo_attainment(run: Run, slo: SloSpec) -> float:
    """Return a share. Formula: requests that met every limit / requests sent (failed ones included).

    Raises:
        MetricUnavailable: the workload sets no limit, or nothing was sent.
    """
    met = _met(run, slo)
    if not run.sent:
        raise MetricUnavailable("nothing was sent")
    return met / run.sent


def _met(run: Run, slo: SloSpec) -> int:
    if slo == SloSpec():
        raise MetricUnavailable("the workload sets no limit (slo)")
    return sum(met_every_limit(sample, slo) for sample in run.samples)


def _within(sample: RequestSample, of: RequestTime, limit_ms: float | None, *, absent: bool) -> bool:
    if limit_ms is None:
        return True
    time_ns = of(sample)
    return absent if time_ns is None else time_ns / NS_PER_MS <= limit_ms
