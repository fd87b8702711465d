# SPDX-License-Identifier: Apache-2.0
"""Every metric of the project by name, with its unit and direction: one plain tuple."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics import goodput, latency, server_side, throughput
from vllm_perf.metrics.measurement import Direction, MetricUnavailable
from vllm_perf.spec.workload import WorkloadSpec

RunValue = Callable[[Run, WorkloadSpec], float]
Kind = Literal["time", "gaps", "rate", "share", "count"]
Combine = Literal["mean", "sum", "max"]
TAIL_ALLOWANCE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: what it is called, how it is taken, and which way is better.

    ``time``: a statistic over one time a request (``of``); ``quantile`` ``None`` is the mean.
    ``gaps``: a quantile over all chunk gaps. ``rate``: one value a repetition (``of_run``), averaged.
    ``share``: a share of the requests sent. ``count``: counted exactly, ``combine``\\ d over repetitions.
    ``allowance``: how many times the asked change it is allowed (a tail of 200 requests wavers two to three
    times as much as their median). ``absolute_floor``: a change smaller than this, in ``unit``, is nobody's
    regression. ``gating``: a comparison may turn red on it. ``needs_tokens``: an estimate without ``usage``.
    """

    name: str
    unit: str
    direction: Direction
    kind: Kind
    of: latency.RequestTime | None = None
    of_run: RunValue | None = None
    quantile: float | None = None
    combine: Combine = "mean"
    gating: bool = False
    absolute_floor: float | None = None
    allowance: float = 1.0
    needs_tokens: bool = False


def _times(
    name: str,
    of: latency.RequestTime,
    *,
    gating: tuple[str, ...] = (),
    absolute_floor: float | None = None,
    needs_tokens: bool = False,
) -> tuple[Metric, ...]:
    """Return the mean and the percentiles of one time; P99 is reported, never gating (it needs 459)."""
    quantiles: dict[str, float | None] = {"mean": None, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
    return tuple(
        Metric(
            name=f"{name}_{suffix}",
            unit="ms",
            direction="lower",
            kind="time",
            of=of,
            quantile=quantile,
            gating=suffix in gating,
            absolute_floor=absolute_floor,
            allowance=TAIL_ALLOWANCE if quantile is not None and quantile > 0.5 else 1.0,
            needs_tokens=needs_tokens,
        )
        for suffix, quantile in quantiles.items()
    )


def _rate(name: str, unit: str, of_run: Callable[[Run], float], *, gating: bool = False) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction="higher",
        kind="rate",
        of_run=lambda run, _workload: of_run(run),
        gating=gating,
    )


def _count(
    name: str, unit: str, direction: Direction, of_run: Callable[[Run], float], combine: Combine = "mean"
) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction=direction,
        kind="count",
        of_run=lambda run, _workload: of_run(run),
        combine=combine,
    )


def _server_ns(sample: RequestSample) -> float | None:
    return None if sample.server is None else sample.server.first_token_ns


def _server_queue_ns(sample: RequestSample) -> float | None:
    return None if sample.server is None else sample.server.queue_ns


def _outside_server_ns(sample: RequestSample) -> float | None:
    """TTFT - (the server's queue + its own time to first token): network, HTTP and client."""
    ttft, queue, server = latency.ttft_ns(sample), _server_queue_ns(sample), _server_ns(sample)
    return None if ttft is None or queue is None or server is None else ttft - queue - server


def _goodput(run: Run, workload: WorkloadSpec) -> float:
    return goodput.goodput(run, workload.slo)


def _attainment(run: Run, workload: WorkloadSpec) -> float:
    return goodput.slo_attainment(run, workload.slo)


def _gaps(suffix: str, quantile: float) -> Metric:
    return Metric(
        name=f"itl_{suffix}",
        unit="ms",
        direction="lower",
        kind="gaps",
        quantile=quantile,
        absolute_floor=0.1,
        allowance=TAIL_ALLOWANCE if quantile > 0.5 else 1.0,
    )


METRICS: tuple[Metric, ...] = (
    *_times("ttft", latency.ttft_ns, gating=("p50", "p95"), absolute_floor=2.0),
    *_times("ttft_from_scheduled", latency.ttft_from_scheduled_ns, absolute_floor=2.0),
    *_times("ttfa", latency.ttfa_ns, absolute_floor=2.0),
    *_times("tpot", latency.tpot_ns, gating=("p50",), absolute_floor=0.1, needs_tokens=True),
    *_times("e2el", latency.e2el_ns, absolute_floor=2.0),
    *_times("e2el_from_scheduled", latency.e2el_from_scheduled_ns, absolute_floor=2.0),
    _gaps("p50", 0.5),
    _gaps("p95", 0.95),
    _gaps("p99", 0.99),
    _rate("output_throughput", "tokens/s", throughput.output_throughput, gating=True),
    _rate("request_throughput", "requests/s", throughput.request_throughput),
    _rate("total_throughput", "tokens/s", throughput.total_throughput),
    _rate("output_throughput_steady", "tokens/s", throughput.steady_output_throughput),
    _rate("request_throughput_steady", "requests/s", throughput.steady_request_throughput),
    _rate("total_throughput_steady", "tokens/s", throughput.steady_total_throughput),
    Metric(name="goodput", unit="requests/s", direction="higher", kind="rate", of_run=_goodput),
    Metric(name="slo_attainment", unit="share", direction="higher", kind="share", of_run=_attainment),
    _count("prefix_hit_rate", "share", "higher", server_side.prefix_hit_rate),
    _count("preemptions", "requests", "lower", server_side.preemptions, "sum"),
    _count("kv_usage", "share", "lower", server_side.kv_usage, "max"),
    _count("queue_mean", "ms", "lower", server_side.queue_mean_ms),
    _count("prefill_mean", "ms", "lower", server_side.prefill_mean_ms),
    _count("decode_mean", "ms", "lower", server_side.decode_mean_ms),
    *_times("server_queue", _server_queue_ns),
    *_times("server_ttft", _server_ns),
    *_times("outside_server", _outside_server_ns),
    _count("peak_in_flight", "requests", "higher", lambda run: float(run.peak_in_flight), "max"),
)
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
GATING = frozenset(metric.name for metric in METRICS if metric.gating)


def find(name: str) -> Metric:
    """Return the metric of that name.

    Raises:
        MetricUnavailable: there is none; the message lists the known names.
    """
    try:
        return BY_NAME[name]
    except KeyError:
        raise MetricUnavailable(f"no metric is called {name!r}; known: {', '.join(BY_NAME)}") from None
