# SPDX-License-Identifier: Apache-2.0
"""Build a report from a record, its comparison and its budgets' outcomes."""

import math
from collections.abc import Mapping, Sequence

from vllm_perf.history.compare import RunComparison
from vllm_perf.history.explain import explain
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.report.headline import Budgets, Ended, judge
from vllm_perf.report.ladder import invalid_reason, ladders
from vllm_perf.report.model import ComparisonRow, Distribution, Report
from vllm_perf.report.partners import partner_lines

MOST_DIFFERENCES = 40


def build_report(
    record: RunRecord,
    comparison: RunComparison | None = None,
    *,
    order: Sequence[str] = (),
    budgets: Budgets | None = None,
    failures: Mapping[str, str] | None = None,
    ended: Ended | None = None,
) -> Report:
    """Return everything that is told about one run.

    ``order`` are the engines of the ladder from its first rung (the record's own order where empty),
    ``budgets`` outcomes by (engine, workload), ``failures`` paragraphs by engine that could not be measured,
    ``ended`` how tests ended, each with what it said.
    """
    outcomes = budgets or {}
    lost = failures or {}
    verdict, sentence = judge(comparison, outcomes, lost, ended)
    return Report(
        headline=verdict,
        sentence=sentence,
        ladders=ladders(record, order, outcomes, lost),
        comparisons=tuple(comparison_rows(record, comparison)),
        distributions=tuple(distributions(record, comparison)),
        differs=what_differs(comparison),
        partnerless=partner_lines(record, comparison) if comparison else (),
        problems=problems(record, lost),
        warnings=(*record.warnings, *(comparison.warnings if comparison else ())),
        facts=facts(record),
    )


def comparison_rows(record: RunRecord, comparison: RunComparison | None) -> list[ComparisonRow]:
    """Return one row a compared series."""
    if comparison is None:
        return []
    return [
        ComparisonRow(
            engine=one.key.engine,
            workload=one.key.workload,
            comparison=one.comparison,
            direction=record.by_key[one.key].direction,
            moved=one.attribution.sentence(),
            baseline=one.baseline.run.short,
            explanation=explain(one, comparison.bases[one.baseline.run.file], record),
            notes=one.baseline.notes,
        )
        for one in comparison.compared
    ]


def distributions(record: RunRecord, comparison: RunComparison | None) -> list[Distribution]:
    """Return the requests' values of every gating median, with the baseline's beside them."""
    return [
        Distribution(name=str(one.key), unit=one.comparison.unit, base=base, head=head)
        for one in (comparison.compared if comparison else ())
        if one.comparison.gating and one.key.metric.endswith("_p50") and comparison is not None
        if (base := _values(comparison.bases[one.baseline.run.file], one.key))
        and (head := _values(record, one.key))
    ]


def _values(record: RunRecord, key: SeriesKey) -> tuple[float, ...]:
    values = (value for repetition in record.by_key[key].samples for value in repetition)
    return tuple(sorted(value for value in values if math.isfinite(value)))


def what_differs(comparison: RunComparison | None) -> tuple[str, ...]:
    """Return every difference from a baseline once, with the engines it concerns where not all."""
    concerned: dict[str, dict[str, None]] = {}
    for one in comparison.compared if comparison else ():
        for line in one.baseline.differences:
            concerned.setdefault(line, {})[one.key.engine] = None
    engines = {one.key.engine for one in (comparison.compared if comparison else ())}
    lines = [
        line if len(names) == len(engines) else f"{line} ({', '.join(names)})"
        for line, names in concerned.items()
    ]
    more = len(lines) - MOST_DIFFERENCES
    return (*lines[:MOST_DIFFERENCES], *([f"and {more} more"] if more > 0 else []))


def problems(record: RunRecord, failures: Mapping[str, str]) -> tuple[str, ...]:
    """Return what could not be measured, and which numbers mean nothing."""
    found = [f"{engine}: {text}" for engine, text in failures.items()]
    for cell in record.cells:
        reason = invalid_reason(record, cell.engine, cell.workload)
        if reason:
            found.append(f"{cell.engine} under {cell.workload}: {reason}")
    return tuple(found)


def facts(record: RunRecord) -> tuple[tuple[str, str], ...]:
    """Return where and how the run was measured, as label and text."""
    found = {"run": record.run_id, "created": record.created, "suite": _suite(record)}
    if record.cells:
        environment = record.cells[0].environment
        hardware, software = environment.hardware, environment.software
        found["hardware"] = (
            ", ".join(hardware.gpu_names) or f"{hardware.cpu_model}, {hardware.cpu_count} cores"
        )
        found["driver"] = hardware.driver or hardware.nvml_note or ""
        found["vLLM"] = software.vllm_version or "version not known"
        found["model"] = ", ".join(dict.fromkeys(cell.environment.workload.model for cell in record.cells))
    found["command"] = record.command
    return tuple((label, text) for label, text in found.items() if text)


def _suite(record: RunRecord) -> str:
    suite = record.suite
    commit = suite.commit[:9] if suite.commit else "no commit"
    return ", ".join(part for part in (commit, suite.branch, suite.note) if part)
