# SPDX-License-Identifier: Apache-2.0
"""One side of a pair: what one boot of one engine measured on one workload, ready to be compared."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vllm_perf.load.sample import Run
from vllm_perf.metrics import server_side
from vllm_perf.metrics.catalogue import measure_all
from vllm_perf.metrics.latency import NS_PER_MS
from vllm_perf.metrics.measurement import Measurement, MetricUnavailable
from vllm_perf.metrics.reasons import InvalidReason
from vllm_perf.metrics.table import METRICS, Metric
from vllm_perf.metrics.validity_server import hit_rate
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.statistics import quantile_t

# Times that are compared prompt by prompt; the name is the metric's without its statistic.
PAIRED = ("ttft", "ttft_from_scheduled", "ttfa", "tpot", "e2el", "e2el_from_scheduled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What was done, so that unequal work is never compared by its time.

    Tokens are means over the requests that succeeded; ``finish`` are shares of the requests sent;
    ``None`` is unknown.
    """

    sent: int
    failed: int
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    finish: Mapping[str, float] = field(default_factory=dict)
    hit_rate: float | None = None
    preemptions: float | None = None
    prompt_set_hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One replicate of one side.

    ``values``: metric to value. ``unavailable``: metric to the reason why it has none. ``by_prompt``: time
    ("ttft") to prompt to milliseconds, in the order of sending, for pairing. ``spread``: metric to the
    standard error of ln(value) within this boot. ``at_once``: requests always under way (closed loop; 1
    where they arrive by themselves). ``repetitions``: how often the load was sent. ``reasons``: why it may
    not be judged.
    """

    values: Mapping[str, float]
    work: Work
    unavailable: Mapping[str, str] = field(default_factory=dict)
    by_prompt: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    at_once: int = 1
    repetitions: int = 1
    reasons: tuple[InvalidReason, ...] = ()


def side_from_runs(
    runs: Sequence[Run], workload: WorkloadSpec, reasons: tuple[InvalidReason, ...] = ()
) -> Side:
    """Make a side of the repetitions ``runs`` of one boot; ``reasons`` come from ``check_runs``."""
    measured = measure_all(runs, workload)
    return Side(
        values={name: one.value for name, one in measured.items() if one.value is not None},
        unavailable={name: str(one.unavailable) for name, one in measured.items() if one.value is None},
        by_prompt={
            metric.name.removesuffix("_p50"): by_prompt(metric, runs)
            for metric in METRICS
            if metric.name.removesuffix("_p50") in PAIRED
        },
        spread={
            name: spread for name, one in measured.items() if (spread := _spread(one, len(runs))) is not None
        },
        work=work_of(runs),
        at_once=workload.arrival.concurrency or 1 if workload.arrival.kind == "closed" else 1,
        repetitions=max(len(runs), 1),
        reasons=reasons,
    )


def by_prompt(metric: Metric, runs: Sequence[Run]) -> dict[str, float]:
    """Return each prompt's time in ms, the geometric mean over repetitions; failed requests left out."""
    logs: dict[str, list[float]] = {}
    assert metric.of is not None
    for run in runs:
        for sample in run.samples:
            time_ns = metric.of(sample) if sample.ok else None
            if time_ns is not None and time_ns > 0:
                logs.setdefault(sample.prompt_id, []).append(math.log(time_ns / NS_PER_MS))
    return {prompt: math.exp(float(np.mean(values))) for prompt, values in logs.items()}


def work_of(runs: Sequence[Run]) -> Work:
    """Return the work done in ``runs``."""
    samples = [sample for run in runs for sample in run.samples]
    done = [sample for sample in samples if sample.ok]
    finish = Counter(str(sample.finish_reason) for sample in done)
    rates = [rate for run in runs if (rate := hit_rate(run)) is not None]
    return Work(
        sent=len(samples),
        failed=len(samples) - len(done),
        prompt_tokens=_mean([sample.prompt_tokens for sample in done]),
        output_tokens=_mean([sample.output_tokens for sample in done]),
        finish={reason: count / len(done) for reason, count in sorted(finish.items())},
        hit_rate=_mean(rates),
        preemptions=_preemptions(runs),
        prompt_set_hash="+".join(sorted({run.prompt_set_hash for run in runs if run.prompt_set_hash})),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _preemptions(runs: Sequence[Run]) -> float | None:
    try:
        return math.fsum(server_side.preemptions(run) for run in runs) if runs else None
    except MetricUnavailable:
        return None


def _spread(measured: Measurement, repetitions: int) -> float | None:
    """Return the standard error of ln(value) that the measurement's 95 % interval stands for."""
    value, low, high = measured.value, measured.low, measured.high
    if value is None or low is None or high is None or not 0 < low <= high < math.inf:
        return None
    df = repetitions - 1 if repetitions > 1 else math.inf
    return math.log(high / low) / 2 / quantile_t(0.975, df)
