# SPDX-License-Identifier: Apache-2.0
"""Describe measured runs as the record keeps them: environment, cell and series."""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_perf.diagnosis.redact import looks_secret
from vllm_perf.engine.engine import Engine
from vllm_perf.history.collect import EngineIdentity, collect
from vllm_perf.history.environment import Environment, Hardware, Scalar
from vllm_perf.history.git import Suite
from vllm_perf.history.record import Cell, EngineFacts, Repetition, Series, SeriesStatus, Work
from vllm_perf.history.versions import Versions
from vllm_perf.load.sample import Run
from vllm_perf.metrics.catalogue import measure, value_of
from vllm_perf.metrics.latency import request_times_ms
from vllm_perf.metrics.measurement import Measurement, MetricUnavailable
from vllm_perf.metrics.table import METRICS, Metric
from vllm_perf.spec.client import DEFAULT_CLIENT
from vllm_perf.spec.workload import WorkloadSpec


def environment(
    engine: Engine, workload: WorkloadSpec, runs: Sequence[Run], hardware: Hardware, suite: Suite
) -> Environment:
    """Return what the runs were measured on, with and for."""
    spec = engine.spec
    identity = EngineIdentity(
        model=spec.model,
        versions=Versions(
            vllm_version=engine.vllm_version or None,
            torch_version=engine.torch_version,
            python_version=platform.python_version(),
        ),
        args=dict(spec.flags),
        env=spec.env,
        revision="random weights" if engine.random_weights else None,
        quantization=str(spec.flags["quantization"]) if "quantization" in spec.flags else None,
    )
    return collect(
        engine=identity,
        workload=workload,
        prompt_set_hash=runs[0].prompt_set_hash if runs else "",
        client=runs[0].client if runs else DEFAULT_CLIENT,
        hardware=hardware,
        suite=suite,
    )


def facts(engine: Engine) -> EngineFacts:
    """Return what the engine said about itself."""

    def text(name: str) -> str | None:
        return str(engine.facts[name]) if name in engine.facts else None

    def number(name: str) -> int | None:
        value = engine.facts.get(name)
        return int(value) if isinstance(value, int | float) else None

    caching = engine.facts.get("prefix_caching")
    # Shown in tables and kept in records: whatever is a key does not belong there.
    own: dict[str, Scalar] = {
        name: value for name, value in engine.spec.own_flags.items() if not looks_secret(name)
    }
    return EngineFacts(
        title=engine.spec.title or engine.name,
        own_flags=own,
        external=engine.process is None,
        attention_backend=text("attention_backend"),
        quantization_kernel=text("quantization_kernel"),
        kv_cache_dtype=text("kv_cache_dtype"),
        kv_cache_tokens=number("kv_cache_tokens"),
        prefix_caching=caching if isinstance(caching, bool) else None,
        max_model_len=number("max_model_len"),
        warnings=engine.warnings,
        log=Path(engine.log_path).name if engine.log_path else None,
    )


def cell(
    engine: Engine,
    workload: str,
    where: Environment,
    runs: Sequence[Run],
    telemetry: dict[str, Scalar | None],
) -> Cell:
    """Return what all series of one engine and workload have in common."""
    return Cell(
        engine=engine.name,
        workload=workload,
        environment=where,
        facts=facts(engine),
        boot_s=(engine.ready.first_token_s,) if engine.ready else (),
        repetitions=tuple(repetition(run) for run in runs),
        telemetry=telemetry,
        stages_ms=stages(runs),
    )


def repetition(run: Run) -> Repetition:
    """Return what one run of the load did."""
    good = [sample for sample in run.samples if sample.ok]
    return Repetition(
        started_s=run.wall_started_s,
        duration_s=(run.ended_ns - run.started_ns) / 1e9,
        sent=run.sent,
        ok=run.sent - run.failed,
        failed=run.failed,
        prompt_ids=tuple(sample.prompt_id for sample in run.samples),
        work=Work(
            prompt_tokens=_sum([sample.prompt_tokens for sample in good]),
            output_tokens=_sum([sample.output_tokens for sample in good]),
            cached_tokens=_delta(run, "vllm:prefix_cache_hits_total"),
            preemptions=_delta(run, "vllm:num_preemptions_total"),
            finish_reasons=dict(Counter(sample.finish_reason or "none" for sample in good)),
            failures=dict(Counter(str(sample.outcome) for sample in run.samples if not sample.ok)),
        ),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    return None if not values or None in values else sum(value for value in values if value is not None)


def _delta(run: Run, name: str) -> int | None:
    if run.counters_before is None or run.counters_after is None:
        return None
    if name not in run.counters_before or name not in run.counters_after:
        return None
    return round(run.counters_after[name] - run.counters_before[name])


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar | None]:
    """Return nested JSON data as one level of dotted names, the form in which a record keeps telemetry."""
    out: dict[str, Scalar | None] = {}
    for name, value in data.items():
        items = {str(i): item for i, item in enumerate(value)} if isinstance(value, list | tuple) else value
        if isinstance(items, Mapping):
            out |= flat(items, f"{prefix}{name}.")
        elif value is None or isinstance(value, bool | int | float | str):
            out[f"{prefix}{name}"] = value
    return out


STAGES = ("queue_mean", "prefill_mean", "decode_mean")


def stages(runs: Sequence[Run]) -> dict[str, float]:
    """Return the server's own mean time in queue, prefill and decode, ms a request, where it tells."""
    found: dict[str, float] = {}
    for metric in METRICS:
        if metric.name in STAGES and metric.of_run is not None:
            values = [value for run in runs if (value := _try(metric, run)) is not None]
            if values:
                found[metric.name.removesuffix("_mean")] = sum(values) / len(values)
    return found


def _try(metric: Metric, run: Run, workload: WorkloadSpec | None = None) -> float | None:
    try:
        return value_of(metric, run, workload or NO_WORKLOAD)
    except MetricUnavailable:
        return None


NO_WORKLOAD = WorkloadSpec.model_validate({"name": "-", "prompt": {"kind": "unique", "unique_tokens": 1}})


def series(
    engine: str, runs: Sequence[Run], workload: WorkloadSpec, invalid: Sequence[str]
) -> tuple[tuple[Series, ...], dict[str, str]]:
    """Return every metric of the catalogue that has a value as a series, and why each other one has none."""
    found: list[Series] = []
    unavailable: dict[str, str] = {}
    for metric in METRICS:
        taken = measure(metric, runs, workload)
        if taken.value is None:
            unavailable[metric.name] = taken.unavailable or "no value"
        else:
            found.append(_one_series(engine, metric, taken, runs, workload))
    status = SeriesStatus.INVALID if invalid else SeriesStatus.OK
    return tuple(replace(one, status=status, reasons=tuple(invalid)) for one in found), unavailable


def _one_series(
    engine: str, metric: Metric, taken: Measurement, runs: Sequence[Run], workload: WorkloadSpec
) -> Series:
    per_request = metric.kind == "time" and metric.of is not None
    return Series(
        engine=engine,
        workload=workload.name,
        metric=metric.name,
        unit=metric.unit,
        direction=metric.direction,
        value=taken.value,
        low=taken.low,
        high=taken.high,
        sent=taken.sent,
        ok=taken.ok,
        failed=taken.failed,
        gating=metric.gating,
        replicates=tuple(_try(metric, run, workload) for run in runs),
        samples=tuple(_per_request(metric, run) for run in runs) if per_request else (),
    )


def _per_request(metric: Metric, run: Run) -> tuple[float, ...]:
    assert metric.of is not None
    try:
        return tuple(float(value) for value in request_times_ms(run.samples, metric.of))
    except MetricUnavailable:
        return ()
