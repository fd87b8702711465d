# SPDX-License-Identifier: Apache-2.0
"""The ladder: what each rung measured, and what it gained over the one before and over the first."""

from collections.abc import Mapping, Sequence
from typing import Any

from vllm_perf.history.record import Cell, RunRecord, Series, SeriesKey, SeriesStatus
from vllm_perf.report.gain import gain
from vllm_perf.report.headline import Budgets
from vllm_perf.report.model import Ladder, LadderRow

# The workload of the boots themselves: their times are no rung's.
NO_LADDER = frozenset({"boot"})


def ladders(
    record: RunRecord, order: Sequence[str], budgets: Budgets, failures: Mapping[str, str]
) -> tuple[Ladder, ...]:
    """Return one ladder a workload, its rungs in ``order``; an engine that failed keeps its place."""
    workloads = dict.fromkeys(cell.workload for cell in record.cells if cell.workload not in NO_LADDER)
    measured = dict.fromkeys(cell.engine for cell in record.cells)
    known = [*order, *(name for name in (*measured, *failures) if name not in order)]
    return tuple(
        Ladder(workload=workload, rows=_rows(record, workload, known, budgets, failures))
        for workload in workloads
    )


def _rows(
    record: RunRecord,
    workload: str,
    engines: Sequence[str],
    budgets: Budgets,
    failures: Mapping[str, str],
) -> tuple[LadderRow, ...]:
    rungs = [name for name in engines if (name, workload) in record.by_cell or name in failures]
    rates = [_usable(record, name, workload, "output_throughput") for name in rungs]
    times = [_usable(record, name, workload, "ttft_p50") for name in rungs]
    return tuple(
        LadderRow(
            **_rung(engine, record.by_cell.get((engine, workload))),
            **_numbers(record, engine, workload),
            gain_before=gain(rates[place], rates[place - 1]) if place else None,
            gain_first=gain(rates[place], rates[0]) if place else None,
            ttft_gain_first=gain(times[place], times[0]) if place else None,
            budgets=tuple(budgets.get((engine, workload), ())),
            problem=failures.get(engine) or invalid_reason(record, engine, workload),
        )
        for place, engine in enumerate(rungs)
    )


def _rung(engine: str, cell: Cell | None) -> dict[str, Any]:
    if cell is None:
        return {"engine": engine, "title": engine}
    flags = " ".join(_flag(name, value) for name, value in cell.facts.own_flags.items())
    return {"engine": engine, "title": cell.facts.title or engine, "flags": flags}


def _flag(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {value}"


def _numbers(record: RunRecord, engine: str, workload: str) -> dict[str, Any]:
    names = {
        "ttft_mean_ms": "ttft_mean",
        "ttft_p50_ms": "ttft_p50",
        "ttft_p95_ms": "ttft_p95",
        "tpot_ms": "tpot_p50",
        "tokens_per_s": "output_throughput",
        "hit_rate": "prefix_hit_rate",
    }
    found = {name: _usable(record, engine, workload, metric) for name, metric in names.items()}
    return {name: series.value if series else None for name, series in found.items()}


def _usable(record: RunRecord, engine: str, workload: str, metric: str) -> Series | None:
    series = record.by_key.get(SeriesKey(engine, workload, metric))
    return None if series is None or series.status in (SeriesStatus.INVALID, SeriesStatus.FAILED) else series


def invalid_reason(record: RunRecord, engine: str, workload: str) -> str | None:
    """Return why a cell's numbers mean nothing; each reason once."""
    reasons = dict.fromkeys(
        reason
        for one in record.series
        if (one.engine, one.workload) == (engine, workload) and one.status is SeriesStatus.INVALID
        for reason in one.reasons
    )
    return "; ".join(reasons) or None
