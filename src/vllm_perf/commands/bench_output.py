# SPDX-License-Identifier: Apache-2.0
"""What ``vllm-perf bench`` says: a table for people, one JSON object or JSON lines for programs."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vllm_perf.diagnosis.redact import redact
from vllm_perf.load.floor import Floor
from vllm_perf.load.plan import Target
from vllm_perf.load.remedies import remedy_for
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics.catalogue import measure_all
from vllm_perf.metrics.measurement import Measurement
from vllm_perf.metrics.percentiles import percentile
from vllm_perf.metrics.reasons import InvalidReason
from vllm_perf.spec.workload import WorkloadSpec

NO_VERDICT = 10
FAILED = 1
NS_PER_MS = 1e6
TIMES = ("ttft", "tpot", "e2el")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
SINGLE = (
    "output_throughput",
    "total_throughput",
    "request_throughput",
    "prefix_hit_rate",
    "preemptions",
    "queue_mean",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All that one bench found out. ``runs`` is empty where the ``first``, single request failed."""

    workload: WorkloadSpec
    target: Target
    runs: tuple[Run, ...]
    first: RequestSample
    invalid: tuple[InvalidReason, ...] = ()
    floor: Floor | None = None

    @property
    def samples(self) -> tuple[RequestSample, ...]:
        """Return the samples of all repetitions, or the one that failed first."""
        return tuple(sample for run in self.runs for sample in run.samples) or (self.first,)

    @property
    def failures(self) -> tuple[RequestSample, ...]:
        """Return what failed."""
        return tuple(sample for sample in self.samples if not sample.ok)


def exit_code(result: Result) -> int:
    """Return 0 where all went well, 1 where a request failed, 10 where the run gives no verdict."""
    if result.failures:
        return FAILED
    return NO_VERDICT if result.invalid or not result.runs else 0


def as_json(result: Result) -> dict[str, Any]:
    """Return the result as data: times in ms, rates in 1/s; ``null`` and a reason where there is none."""
    samples, failures = result.samples, result.failures
    said: dict[str, Any] = {
        "outcome": str(failures[0].outcome) if failures else "ok",
        "detail": _hidden(result, failures[0].detail) if failures else None,
        "remedy": _hidden(result, _remedy(failures[0])) if failures else None,
        "workload": result.workload.model_dump(mode="json"),
        "base_url": result.target.base_url,
        "model": result.target.model,
        "sent": len(samples),
        "ok": len(samples) - len(failures),
        "failed": len(failures),
        "outcomes": dict(Counter(str(sample.outcome) for sample in samples)),
        "valid": bool(result.runs) and not result.invalid,
        "invalid": [_reason(reason) for reason in result.invalid],
        "warnings": warnings(result),
        "repetitions": [_run(run) for run in result.runs],
        "floor": None if result.floor is None else _floor(result.floor),
        "metrics": {},
    }
    if result.runs:
        found = measure_all(result.runs, result.workload)
        said["metrics"] = {name: _measurement(one) for name, one in found.items()}
    return said


def write_samples(path: Path, result: Result) -> None:
    """Write one JSON line a request; times are ``perf_counter_ns`` of this host."""
    groups = [run.samples for run in result.runs] or [(result.first,)]
    with path.open("w", encoding="utf-8") as file:
        for repetition, samples in enumerate(groups):
            for sample in samples:
                file.write(json.dumps(_sample(sample, repetition), ensure_ascii=False) + "\n")


def warnings(result: Result) -> list[str]:
    """Return each warning once, those of single requests with how many had it."""
    whole = dict.fromkeys(warning for run in result.runs for warning in run.warnings)
    single = Counter(warning for sample in result.samples for warning in sample.warnings)
    return [*whole, *(f"{count} requests: {warning}" for warning, count in single.most_common())]


def show(result: Result, console: Console) -> None:
    """Print the result for a person: what failed first, then numbers, then why not to trust them."""
    for line in _failed_lines(result):
        console.print(line, markup=False, highlight=False)
    if not result.runs:
        return
    found = measure_all(result.runs, result.workload)
    console.print(_table(result, found))
    for line in _facts(result, found):
        console.print(line, markup=False, highlight=False)
    for reason in result.invalid:
        console.print(f"no verdict: {_hidden(result, str(reason))}", markup=False, highlight=False)
    for warning in warnings(result):
        console.print(f"warning: {_hidden(result, warning)}", markup=False, highlight=False)


def _failed_lines(result: Result) -> Iterator[str]:
    if not result.failures:
        return
    counts = Counter(str(sample.outcome) for sample in result.failures)
    kinds = ", ".join(f"{count} x {kind}" for kind, count in counts.most_common())
    yield f"failed: {len(result.failures)} of {len(result.samples)} requests ({kinds})"
    worst = counts.most_common(1)[0][0]
    example = next(sample for sample in result.failures if str(sample.outcome) == worst)
    yield f"  seen: {_hidden(result, example.detail)}"
    yield f"  do:   {_hidden(result, _remedy(example))}"


def _table(result: Result, found: dict[str, Measurement]) -> Table:
    table = Table(title=f"{result.target.model}: {result.workload.title or result.workload.name}")
    table.add_column("ms")
    for name in STATISTICS:
        table.add_column(name, justify="right")
    for time in TIMES:
        table.add_row(time.upper(), *(_shown(found.get(f"{time}_{name}")) for name in STATISTICS))
    table.add_row("ITL", *(_shown(found.get(f"itl_{name}")) for name in STATISTICS))
    if result.floor is not None:
        added = result.floor.added_ttft_ms
        shown = [f"{percentile(added, share):.2f}" for share in (0.5, 0.9, 0.95, 0.99)]
        table.add_row("client's own TTFT", "", *shown)
    return table


def _facts(result: Result, found: dict[str, Measurement]) -> Iterator[str]:
    run = result.runs[-1]
    seconds = sum(one.ended_ns - one.started_ns for one in result.runs) / 1e9
    yield (
        f"{len(result.samples)} requests, {len(result.failures)} failed, in {seconds:.1f} s;"
        f" at most {run.peak_in_flight} in flight; client: {run.client}; clock: {run.clock};"
        f" client's CPU: {run.scheduling}, waited {run.worst_cpu_wait_ns / NS_PER_MS:.1f} ms at most;"
        f" seed {result.workload.seed}"
    )
    for name in SINGLE:
        one = found.get(name)
        if one is not None and one.value is not None:
            yield f"{name.replace('_', ' '):<20} {one.value:.3f} {one.unit}"


def _shown(one: Measurement | None) -> str:
    return "-" if one is None or one.value is None else f"{one.value:.2f}"


def _measurement(one: Measurement) -> dict[str, Any]:
    # JSON has no infinity: a percentile that leans on a failed request has no value there.
    infinite = one.value is not None and math.isinf(one.value)
    return {
        "value": _finite(one.value),
        "unit": one.unit,
        "low": _finite(one.low),
        "high": _finite(one.high),
        "unavailable": "infinite: it leans on requests that failed" if infinite else one.unavailable,
        "estimated": one.estimated,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _run(run: Run) -> dict[str, Any]:
    return {
        "started_ns": run.started_ns,
        "ended_ns": run.ended_ns,
        "sent": run.sent,
        "failed": run.failed,
        "peak_in_flight": run.peak_in_flight,
        "asked_concurrency": run.asked_concurrency,
        "asked_rate_per_s": run.asked_rate_per_s,
        "median_lag_ms": None if run.median_lag_ns is None else run.median_lag_ns / NS_PER_MS,
        "max_lag_ms": None if run.max_lag_ns is None else run.max_lag_ns / NS_PER_MS,
        "clock": run.clock,
        "scheduling": run.scheduling,
        "cpu_wait_ms": run.cpu_wait_ns / NS_PER_MS,
        "worst_cpu_wait_ms": run.worst_cpu_wait_ns / NS_PER_MS,
        "client": run.client,
        "caches_reset": run.caches_reset,
        "prompt_set_hash": run.prompt_set_hash,
    }


def _floor(floor: Floor) -> dict[str, float]:
    return {
        "ttft_p50_ms": floor.ttft_p50_ms,
        "ttft_p99_ms": percentile(floor.added_ttft_ms, 0.99),
        "itl_p99_ms": percentile(floor.added_gap_ms, 0.99),
    }


def _reason(reason: InvalidReason) -> dict[str, str]:
    return {"code": str(reason.code), "sentence": reason.sentence, "remedy": reason.remedy}


def _sample(sample: RequestSample, repetition: int) -> dict[str, Any]:
    return {
        "id": sample.id,
        "prompt_id": sample.prompt_id,
        "repetition": repetition,
        "scheduled_ns": sample.scheduled_ns,
        "sent_ns": sample.sent_ns,
        "first_token_ns": sample.first_token_ns,
        "first_answer_ns": sample.first_answer_ns,
        "last_token_ns": sample.last_token_ns,
        "end_ns": sample.end_ns,
        "connect_ns": sample.connect_ns,
        "prompt_tokens": sample.prompt_tokens,
        "cached_tokens": sample.cached_tokens,
        "output_tokens": sample.output_tokens,
        "token_source": sample.token_source,
        "finish_reason": sample.finish_reason,
        "chunks": len(sample.chunk_ns),
        "outcome": str(sample.outcome),
        "status": sample.status,
        "warnings": list(sample.warnings),
    }


def _remedy(sample: RequestSample) -> str | None:
    return remedy_for(sample.outcome, sample.remedy)


def _hidden(result: Result, text: str | None) -> str:
    key = result.target.api_key
    return redact(text or "", (key,) if key else ())
