# SPDX-License-Identifier: Apache-2.0
"""A comparison as one JSON document: shown with ``--json`` and stored; it never holds a key."""

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from vllm_perf.channel.compare import Comparison
from vllm_perf.channel.difference import Difference
from vllm_perf.channel.rounds import invalid_reasons
from vllm_perf.channel.rows import Against, Row, make_rows
from vllm_perf.channel.side import Side
from vllm_perf.diagnosis.redact import redact
from vllm_perf.metrics.measurement import Measurement

SCHEMA = "vllm-perf-channels/1"


def document(done: Comparison) -> dict[str, Any]:
    """Return everything a comparison found out; ``null`` where there is no value."""
    rows = make_rows(done.sides, done.workload, done.unfit) if done.rounds else ()
    return {
        "schema": SCHEMA,
        "started_s": done.started_s,
        "workload": done.workload.model_dump(mode="json"),
        "pairs_asked": done.pairs_asked,
        "pairs": done.rounds,
        "prompts_counted_by": done.reference,
        "channels": {side.name: _side(side, done) for side in done.sides},
        "metrics": [_row(row) for row in rows],
        "failure": _failure(done),
        "stopped": None if done.stopped is None else _stopped(done),
        "interrupted": done.interrupted,
        "notes": done.notes,
    }


def text_of(done: Comparison) -> str:
    """Return the document as JSON text, with every channel's key taken out of whatever a server said."""
    keys = [side.target.api_key for side in done.sides if side.target.api_key]
    return redact(json.dumps(document(done), ensure_ascii=False, allow_nan=False, indent=1), keys)


def store(text: str, folder: Path, started_s: float) -> Path:
    """Write the document into ``folder`` under a name of its own and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"channels-{round(started_s * 1000)}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _failure(done: Comparison) -> dict[str, Any] | None:
    if done.failure is None:
        return None
    found = done.failure.diagnosis
    return {
        "channel": done.failure.channel,
        "category": found.category.value,
        "cause": found.cause,
        "evidence": found.evidence,
        "remedy": found.remedy,
    }


def _stopped(done: Comparison) -> dict[str, Any]:
    assert done.stopped is not None
    return {"channel": done.stopped.channel, "reason": done.stopped.reason}


def _side(side: Side, done: Comparison) -> dict[str, Any]:
    samples = [sample for run in side.runs for sample in run.samples]
    outcomes = Counter(sample.outcome.value for sample in samples)
    purse, network = side.manners.purse, side.network
    low, high = network.rtt_interval_ms
    invalid = invalid_reasons(side, done.workload)
    return {
        "title": side.spec.title,
        "base_url": side.target.base_url,
        "model": side.target.model,
        "notes": side.spec.notes,
        "handshake": dataclasses.asdict(side.facts),
        "network": {
            "rtt_ms": network.rtt_ms,
            "rtt_low_ms": low,
            "rtt_high_ms": high,
            "http_ms": network.http_ms,
            "through_proxy": network.through_proxy,
            "connects": len(network.connects_ms),
        },
        "prompt_cache": dataclasses.asdict(side.cache),
        "outcomes": dict(outcomes),
        "prompt_tokens_median": _median_prompt(side),
        "requests": side.manners.requests,
        "refused_429": side.manners.refused,
        "waited_s": side.manners.pacer.waited_s,
        "spent": purse.spent,
        "currency": purse.prices.currency,
        "spend_cap": purse.cap,
        "prompt_tokens": purse.prompt_tokens,
        "output_tokens": purse.output_tokens,
        "uncounted_requests": purse.uncounted,
        "invalid": [str(reason) for reason in invalid],
        "warnings": sorted({warning for run in side.runs for warning in run.warnings}),
    }


def _median_prompt(side: Side) -> int | None:
    counts = sorted(
        sample.prompt_tokens
        for run in side.runs
        for sample in run.samples
        if sample.ok and sample.prompt_tokens is not None
    )
    return counts[len(counts) // 2] if counts else None


def _row(row: Row) -> dict[str, Any]:
    return {
        "metric": row.metric,
        "unit": row.unit,
        "direction": row.direction,
        "values": {name: _value(one) for name, one in row.values.items()},
        "rounds": {name: [_finite(value) for value in values] for name, values in row.rounds.items()},
        "against": [_against(one) for one in row.against],
    }


def _value(one: Measurement) -> dict[str, Any]:
    return {
        "value": _finite(one.value),
        "low": _finite(one.low),
        "high": _finite(one.high),
        "sent": one.sent,
        "ok": one.ok,
        "failed": one.failed,
        "estimated": one.estimated,
        "unavailable": _why(one),
    }


def _why(one: Measurement) -> str | None:
    if one.value is not None and not math.isfinite(one.value):
        return "requests failed, and the value leans on them"
    return one.unavailable


def _against(one: Against) -> dict[str, Any]:
    return {
        "channel": one.channel,
        "comparable": one.reason is None,
        "reason": one.reason,
        "difference": _difference(one.difference),
        "network": _difference(one.network),
        "rest": _difference(one.rest),
    }


def _difference(one: Difference | None) -> dict[str, Any] | None:
    return None if one is None else dataclasses.asdict(one)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
