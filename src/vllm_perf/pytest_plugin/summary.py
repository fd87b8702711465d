# SPDX-License-Identifier: Apache-2.0
"""Write what a finished session found: into pytest's terminal, and as Markdown and HTML where asked."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vllm_perf.history.record import RunRecord
from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin.budgets import BudgetBook
from vllm_perf.pytest_plugin.ending import Outcome
from vllm_perf.pytest_plugin.plan import Plan
from vllm_perf.report.build import build_report
from vllm_perf.report.html import html as render_html
from vllm_perf.report.markdown import markdown as render_markdown
from vllm_perf.report.model import Report
from vllm_perf.report.terminal import print_report
from vllm_perf.verdict.budgets import judge
from vllm_perf.verdict.types import BudgetVerdict

if TYPE_CHECKING:
    from vllm_perf.pytest_plugin.finish import Ending, Recorded


def make_report(
    plan: Plan,
    results: tuple[CellResult, ...],
    recorded: "Recorded",
    budgets: BudgetBook,
    outcomes: Iterable[Outcome],
) -> Report:
    """Return everything there is to show of a session."""
    ended = defaultdict(list)
    for outcome in outcomes:
        ended[outcome["kind"]].append(str(outcome["explanation"]).partition("\n")[0])
    record = recorded.record or RunRecord(run_id="none", created="")
    failures = {result.engine: result.failure for result in results if result.failure is not None}
    return build_report(
        record,
        recorded.comparison,
        order=[engine.name for engine in plan.engines],
        budgets=budget_verdicts(results, budgets),
        failures=failures,
        ended=ended,
    )


def budget_verdicts(
    results: tuple[CellResult, ...], book: BudgetBook
) -> dict[tuple[str, str], list[BudgetVerdict]]:
    """Return how each measured cell stands against its budgets, gains included."""
    by_cell = {(result.engine, result.workload): result for result in results}
    found: dict[tuple[str, str], list[BudgetVerdict]] = defaultdict(list)
    for result in results:
        for budget in book.budgets:
            measured = result.measurement(budget.metric)
            if measured is None or budget not in book.of(result.engine, result.workload, budget.metric):
                continue
            base = by_cell.get((budget.relative_to or "", result.workload))
            if budget.relative_to is not None and base is None:
                continue  # the other rung was not asked for in this run
            baseline = base.measurement(budget.metric) if base else None
            found[result.engine, result.workload].append(judge(budget, measured, baseline))
    return dict(found)


def show_summary(ending: "Ending", reporter: pytest.TerminalReporter) -> None:
    """Show the ladder, the comparison, what differs and what has no partner; raise nothing."""
    reporter.section("vllm-perf")
    writer = reporter._tw  # noqa: SLF001  pytest offers no other way to its terminal's own stream
    print_report(ending.report, writer._file)  # noqa: SLF001
    path, comparison = ending.recorded.path, ending.recorded.comparison
    if path is not None:
        created = comparison is not None and comparison.created
        first = " (baseline created: nothing was stored before)" if created else ""
        reporter.write_line(f"recorded: {_short(path)}{first}")
    for path in ending.written:
        reporter.write_line(f"report: {_short(path)}")


def write_reports(report: Report, markdown: Path | None, html: Path | None) -> tuple[Path, ...]:
    """Write the files that were asked for and return them."""
    written = []
    for path, text in ((markdown, render_markdown), (html, render_html)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(report), encoding="utf-8")
            written.append(path)
    return tuple(written)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
