# SPDX-License-Identifier: Apache-2.0
"""Stored runs and trends as lines of text, and as plain data for ``--json``."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from vllm_perf.history.entry import RunEntry
from vllm_perf.history.record import SeriesStatus
from vllm_perf.history.trend import Shift, Trend
from vllm_perf.report import words

BLOCKS = "▁▂▃▄▅▆▇█"
MOST_BLOCKS = 60


def run_lines(runs: Sequence[RunEntry], anchors: Mapping[str, str]) -> list[str]:
    """Return one line a run: id, time, commit, vLLM, machine, how its series ended, its anchors."""
    names = _names_of(anchors)
    rows = [("run", "measured (UTC)", "commit", "vLLM", "hardware", "series", "")]
    rows += [
        (
            run.run_id,
            run.created[:16].replace("T", " "),
            _commit(run),
            _vllm(run),
            _hardware(run),
            ends_of(run),
            " ".join(f"[{name}]" for name in names.get(run.file, ())),
        )
        for run in runs
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def run_json(run: RunEntry, anchors: Mapping[str, str]) -> dict[str, Any]:
    """Return what a line of the list holds, as plain data."""
    return {
        "run_id": run.run_id,
        "file": run.file,
        "created": run.created,
        "commit": run.commit,
        "branch": run.branch,
        "dirty": run.dirty,
        "complete": run.complete,
        "vllm": _vllm(run),
        "hardware": _hardware(run),
        "series": dict(Counter(str(info.status) for info in run.series)),
        "anchors": list(_names_of(anchors).get(run.file, ())),
    }


def ends_of(run: RunEntry) -> str:
    """Return how the series of a run ended; metrics that nothing could measure are not counted."""
    ends = Counter(info.status for info in run.series)
    told = [f"{ends[SeriesStatus.OK]} ok"]
    for status, word in (
        (SeriesStatus.REGRESSED, "regressed"),
        (SeriesStatus.FAILED_BUDGET, "over budget"),
        (SeriesStatus.INVALID, "invalid"),
    ):
        told += [f"{ends[status]} {word}"] if ends[status] else []
    return ", ".join(told) + ("" if run.complete else ", cut short")


def _names_of(anchors: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for name, file in sorted(anchors.items()):
        names[file] = (*names.get(file, ()), name)
    return names


def _commit(run: RunEntry) -> str:
    return f"{run.commit[:9]}{' dirty' if run.dirty else ''}" if run.commit else "none"


def _vllm(run: RunEntry) -> str:
    versions = {run.parts.environment(parts).software.vllm_version or "?" for parts in run.cells.values()}
    return "/".join(sorted(versions))


def _hardware(run: RunEntry) -> str:
    for parts in run.cells.values():
        hardware = run.parts.environment(parts).hardware
        if not hardware.gpu_names:
            return f"{hardware.cpu_model or 'CPU'} ({hardware.cpu_count} cores)"
        names = Counter(hardware.gpu_names)
        return ", ".join(f"{count}x {name}" if count > 1 else name for name, count in names.items())
    return "?"


def trend_lines(trend: Trend) -> list[str]:
    """Return a series as a heading, a picture, its change points and its distance from the anchor."""
    last = trend.points[-1]
    latest = f"last {words.number(last.value)} {trend.unit} ({last.run.short})"
    lines = [
        f"{trend.key}  {len(trend.points)} runs, {latest}",
        f"  {sparkline([point.value for point in trend.points])}",
    ]
    lines += [f"  {shift_line(shift, trend.unit)}" for shift in trend.shifts]
    if trend.drift is not None and trend.anchor is not None:
        beyond = "further than allowed and than noise" if trend.drift.beyond else "within what is allowed"
        lines.append(
            f"  from anchor {trend.anchor[0]}: {words.change(trend.drift.ratio)}"
            f" ({words.change(trend.drift.low)} … {words.change(trend.drift.high)}): {beyond}"
        )
    return lines


def shift_line(shift: Shift, unit: str) -> str:
    """Return a change point with the runs and commits it lies between."""
    word = "worse" if shift.worse else "better"
    commits = ""
    if (
        shift.before.run.commit
        and shift.first.run.commit
        and shift.before.run.commit != shift.first.run.commit
    ):
        commits = f", commits {shift.before.run.commit[:9]}..{shift.first.run.commit[:9]}"
    return (
        f"{word} by {words.change(shift.ratio)} from run {shift.first.run.short} on"
        f" ({words.number(shift.before.value)} → {words.number(shift.first.value)} {unit}{commits})"
    )


def sparkline(values: Sequence[float]) -> str:
    """Return the last 60 values as blocks on a logarithmic scale between their ends."""
    logs = [math.log(value) for value in values[-MOST_BLOCKS:]]
    low, span = min(logs), (max(logs) - min(logs)) or 1.0
    return "".join(BLOCKS[min(int((value - low) / span * len(BLOCKS)), len(BLOCKS) - 1)] for value in logs)


def trend_json(trend: Trend) -> dict[str, Any]:
    """Return a trend as plain data."""
    return {
        "engine": trend.key.engine,
        "workload": trend.key.workload,
        "metric": trend.key.metric,
        "unit": trend.unit,
        "direction": trend.direction,
        "points": [
            {"run_id": p.run.run_id, "created": p.run.created, "commit": p.run.commit, "value": p.value}
            for p in trend.points
        ],
        "shifts": [
            {
                "run_id": shift.first.run.run_id,
                "ratio": shift.ratio,
                "worse": shift.worse,
                "from_commit": shift.before.run.commit,
                "to_commit": shift.first.run.commit,
            }
            for shift in trend.shifts
        ],
        "anchor": trend.anchor[0] if trend.anchor else None,
        "drift": trend.drift.ratio if trend.drift else None,
        "drift_beyond": trend.drift.beyond if trend.drift else None,
    }
