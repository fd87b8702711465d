# SPDX-License-Identifier: Apache-2.0
"""The end of a session: record, rows for pytest-benchmark, and what the user reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vllm_perf.history.benchmark_rows import benchmark_rows
from vllm_perf.history.git import describe_suite
from vllm_perf.history.record import RunRecord
from vllm_perf.history.store import Store
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.pytest_plugin.bridge import append_rows
from vllm_perf.pytest_plugin.cells import CellFolder
from vllm_perf.pytest_plugin.ending import Outcome, make_record
from vllm_perf.pytest_plugin.plan import Plan
from vllm_perf.pytest_plugin.summary import show_summary
from vllm_perf.pytest_plugin.workers import cell_folder

if TYPE_CHECKING:
    from vllm_perf.pytest_plugin.controller import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a finished session has to show. ``keep_cells``: it was cut short and may be resumed."""

    plan: Plan
    results: tuple[CellResult, ...]
    outcomes: tuple[Outcome, ...]
    record: RunRecord | None
    path: Path | None
    keep_cells: bool

    def show(self, reporter: pytest.TerminalReporter) -> None:
        """Write the summary into pytest's terminal."""
        show_summary(self, reporter)


def finish(controller: "Controller", *, interrupted: bool) -> Ending:
    """Record the session and put its rows before pytest-benchmark."""
    folder = CellFolder(cell_folder(controller.config.work_dir, controller.pytest_config))
    results = collect_results(controller.plan, folder)
    outcomes = tuple(controller.outcomes.values())
    record = path = None
    if any(result.cell is not None for result in results):
        suite = describe_suite(controller.config.root)
        record = make_record(results, outcomes, controller.config, suite, complete=not interrupted)
        path = Store(controller.config.history_dir).save(record)
        tested = {outcome["metric"] for outcome in outcomes}
        rows = [row for row in benchmark_rows(record) if row["params"]["metric"] in tested]
        append_rows(controller.pytest_config, rows)
    return Ending(
        plan=controller.plan,
        results=results,
        outcomes=outcomes,
        record=record,
        path=path,
        keep_cells=interrupted,
    )


def collect_results(plan: Plan, folder: CellFolder) -> tuple[CellResult, ...]:
    """Return every cell that this session's processes published, in the plan's order."""
    found: Sequence[CellResult | None] = [
        folder.load(engine.name, workload)
        for engine in plan.engines
        for workload in (BOOT, *(one.name for one in plan.workloads))
    ]
    return tuple(result for result in found if result is not None)
