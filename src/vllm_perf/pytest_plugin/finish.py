# SPDX-License-Identifier: Apache-2.0
"""The end of a session: record, rows for pytest-benchmark, and what the user reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vllm_perf.history.benchmark_rows import benchmark_rows
from vllm_perf.history.compare import RunComparison
from vllm_perf.history.git import describe_suite
from vllm_perf.history.record import RunRecord
from vllm_perf.history.store import Store, StoreError
from vllm_perf.lab.machine import detect_machine
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.pytest_plugin import summary
from vllm_perf.pytest_plugin.bridge import append_rows
from vllm_perf.pytest_plugin.budgets import BudgetBook
from vllm_perf.pytest_plugin.cells import CellFolder
from vllm_perf.pytest_plugin.comparisons import Comparisons
from vllm_perf.pytest_plugin.ending import Outcome, make_record
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.pytest_plugin.plan import Plan
from vllm_perf.pytest_plugin.workers import cell_folder
from vllm_perf.report.model import Report

if TYPE_CHECKING:
    from vllm_perf.pytest_plugin.controller import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What was kept of a session: ``record`` is ``None`` where nothing could be measured."""

    record: RunRecord | None = None
    path: Path | None = None
    comparison: RunComparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a finished session has to show; ``written`` are the report files that were asked for."""

    plan: Plan
    results: tuple[CellResult, ...]
    recorded: Recorded
    report: Report
    written: tuple[Path, ...]

    def show(self, reporter: pytest.TerminalReporter) -> None:
        """Write the summary into pytest's terminal."""
        summary.show_summary(self, reporter)


def finish(controller: "Controller", *, interrupted: bool) -> Ending:
    """Record the session and put its rows before pytest-benchmark."""
    config, plan = controller.config, controller.plan
    results = collect_results(plan, CellFolder(cell_folder(config.work_dir, controller.pytest_config)))
    outcomes = tuple(controller.outcomes.values())
    recorded = _record(config, results, outcomes, complete=not interrupted)
    if recorded.record is not None:
        tested = {outcome["metric"] for outcome in outcomes}
        rows = [row for row in benchmark_rows(recorded.record) if row["params"]["metric"] in tested]
        append_rows(controller.pytest_config, rows)
    budgets = BudgetBook.choose(plan, detect_machine())
    report = summary.make_report(plan, results, recorded, budgets, outcomes)
    written = summary.write_reports(report, config.markdown, config.html)
    return Ending(plan=plan, results=results, recorded=recorded, report=report, written=written)


def _record(
    config: PerfConfig, results: Sequence[CellResult], outcomes: Sequence[Outcome], *, complete: bool
) -> Recorded:
    if all(result.cell is None for result in results):
        return Recorded()
    suite = describe_suite(config.root)
    record = make_record(results, outcomes, config, suite, complete=complete)
    comparison = None
    try:
        # Compared before it is saved: a run is never among its own baselines.
        comparison = Comparisons(config=config, suite=suite).compare(record) if config.compare else None
    except StoreError as error:  # a baseline that was there when the session began; the run is kept
        record = replace(record, warnings=(*record.warnings, f"not compared as a whole: {error}"))
    try:
        path = Store(config.history_dir).save(record)
    except StoreError as error:
        return Recorded(record=replace(record, warnings=(*record.warnings, f"NOT RECORDED: {error}")))
    return Recorded(record=record, path=path, comparison=comparison)


def collect_results(plan: Plan, folder: CellFolder) -> tuple[CellResult, ...]:
    """Return every cell that this session's processes published, in the plan's order."""
    found: Sequence[CellResult | None] = [
        folder.load(engine.name, workload)
        for engine in plan.engines
        for workload in (BOOT, *(one.name for one in plan.workloads))
    ]
    return tuple(result for result in found if result is not None)
