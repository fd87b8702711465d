# SPDX-License-Identifier: Apache-2.0
"""Show a report in a terminal: coloured tables there, plain ones where the output is piped."""

import io
import os
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from vllm_perf.report import words
from vllm_perf.report.model import ComparisonRow, Headline, Report
from vllm_perf.report.tables import Layout, comparison_table, ladder_table
from vllm_perf.verdict.types import Change, Status

PIPED_WIDTH = 160
DOUBTFUL = (Headline.UNKNOWN, Headline.NOT_COMPARED, Headline.NO_REGRESSION)
GOOD = (Headline.SAME, Headline.IMPROVED, Headline.WITHIN_BUDGET, Headline.CREATED, Headline.MEASURED)


def print_report(report: Report, file: TextIO, *, others: bool = False) -> None:
    """Write the report to ``file``; ``others`` also shows the metrics that cannot turn red.

    A character that the file's encoding lacks becomes a question mark, never an error.
    """
    text = render(report, terminal=file.isatty(), width=_width(file), others=others)
    encoding = file.encoding or "utf-8"
    file.write(text.encode(encoding, "replace").decode(encoding))


def render(report: Report, *, terminal: bool, width: int | None = None, others: bool = False) -> str:
    """Return the report as text, with colours and box characters only for a ``terminal``."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        force_terminal=terminal,
        no_color=not terminal or bool(os.environ.get("NO_COLOR")),
        width=width or PIPED_WIDTH,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    layout = Layout(plain=not terminal, width=console.width)
    for part in _parts(report, layout, others=others):
        console.print(part, soft_wrap=not terminal and not isinstance(part, Table))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _width(file: TextIO) -> int | None:
    try:
        return os.get_terminal_size(file.fileno()).columns if file.isatty() else None
    except OSError:
        return None


def _parts(report: Report, layout: Layout, *, others: bool) -> Iterable[RenderableType]:
    for ladder in report.ladders:
        yield ladder_table(ladder, layout)
    yield from _list("Budgets not met, or without a verdict", _open_budgets(report))
    if report.gating:
        yield comparison_table("Against the baseline", report.gating, layout)
        gating = [row.comparison for row in report.gating]
        notes = [words.by_prompt_note(gating), "" if layout.narrow else words.pairs_note(gating)]
        yield from (Text(note, style="dim") for note in notes if note)
        yield Text("")
    if others and report.others:
        yield comparison_table("Shown, not judged", report.others, layout)
    shown = (*report.gating, *(report.others if others else ()))
    yield from (Text(f"{text}\n") for text in _explanations(report.gating))
    yield from _list("Undecided because", _undecided(shown))
    yield from _list("About the baselines", _notes(shown))
    yield from _list("Differs from the baseline", report.differs)
    yield from _list("Without a partner", report.partnerless)
    yield from _list("No verdict possible", report.problems)
    yield from _list("Warnings", report.warnings)
    style = "bold green" if report.headline in GOOD else "bold red"
    if report.headline in DOUBTFUL:
        style = "bold yellow"
    yield Text.assemble((str(report.headline).upper(), style), f": {report.sentence}")


def _open_budgets(report: Report) -> Iterable[str]:
    for ladder in report.ladders:
        for row in ladder.rows:
            for one in row.budgets:
                if one.status is not Status.PASS:
                    yield f"{row.title} under {ladder.workload}, {one.metric}: {one.status}: {one.reason}"


def _explanations(rows: Iterable[ComparisonRow]) -> Iterable[str]:
    return (row.explanation for row in rows if row.comparison.change is Change.REGRESSED)


def _undecided(rows: Iterable[ComparisonRow]) -> Iterable[str]:
    """Return the reasons of comparisons without an interval, each once with the series it holds for."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.comparison.low is None:
            names.setdefault(row.comparison.reason, []).append(row.name)
    return (f"{reason} ({', '.join(several)})" for reason, several in names.items())


def _notes(rows: Iterable[ComparisonRow]) -> Iterable[str]:
    return dict.fromkeys(f"run {row.baseline}: {note}" for row in rows for note in row.notes)


def _list(title: str, lines: Iterable[str]) -> Iterable[RenderableType]:
    kept = list(lines)
    if kept:
        yield Group(Text(title, style="bold"), *(Text(f"  {line}") for line in kept), Text(""))
