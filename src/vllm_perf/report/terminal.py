# SPDX-License-Identifier: Apache-2.0
"""Show a report in a terminal: coloured tables there, plain ones where the output is piped."""

import io
import os
from collections.abc import Iterable
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from vllm_perf.report import words
from vllm_perf.report.model import ComparisonRow, Headline, Ladder, LadderRow, Report
from vllm_perf.verdict.types import Change, Status

PIPED_WIDTH = 160
CHANGE_STYLES = {
    Change.REGRESSED: "bold red",
    Change.IMPROVED: "green",
    Change.SAME: "dim",
    Change.INCONCLUSIVE: "yellow",
}
BUDGET_WORDS = {
    Status.PASS: ("met", "green"),
    Status.FAIL: ("NOT MET", "bold red"),
    Status.NO_VERDICT: ("no verdict", "yellow"),
}
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
    for part in _parts(report, plain=not terminal, others=others):
        console.print(part)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _width(file: TextIO) -> int | None:
    try:
        return os.get_terminal_size(file.fileno()).columns if file.isatty() else None
    except OSError:
        return None


def _parts(report: Report, *, plain: bool, others: bool) -> Iterable[RenderableType]:
    for ladder in report.ladders:
        yield ladder_table(ladder, plain=plain)
    if report.gating:
        yield comparison_table("Against the baseline", report.gating, plain=plain)
    if others and report.others:
        yield comparison_table("Shown, not judged", report.others, plain=plain)
    yield from (_moved(row) for row in report.gating if row.comparison.change is Change.REGRESSED)
    yield from _list("Differs from the baseline", report.differs)
    yield from _list("Without a partner", report.partnerless)
    yield from _list("No verdict possible", report.problems)
    yield from _list("Warnings", report.warnings)
    style = "bold green" if report.headline in GOOD else "bold red"
    if report.headline is Headline.UNKNOWN:
        style = "bold yellow"
    yield Text.assemble((str(report.headline).upper(), style), f": {report.sentence}")


def ladder_table(ladder: Ladder, *, plain: bool = False) -> Table:
    """Return the ladder: one rung a row, its flags under its name, intervals under their gains."""
    table = _table(f"Ladder, workload {ladder.workload}", plain)
    table.add_column("rung\nflags added", overflow="fold", min_width=14)
    for heading in ("TTFT ms\nmean", "\nP50", "\nP95", "TPOT\nms", "\ntok/s", "cache\nhits"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("gain, before\ntok/s", justify="right", no_wrap=True)
    table.add_column("gain, first\ntok/s", justify="right", no_wrap=True)
    table.add_column("gain, first\nTTFT", justify="right", no_wrap=True)
    table.add_column("budget", overflow="fold", min_width=10)
    for row in ladder.rows:
        table.add_row(*_ladder_cells(row))
    return table


def _ladder_cells(row: LadderRow) -> list[RenderableType]:
    numbers = (row.ttft_mean_ms, row.ttft_p50_ms, row.ttft_p95_ms, row.tpot_ms, row.tokens_per_s)
    gains = (row.gain_before, row.gain_first, row.ttft_gain_first)
    return [
        Text(row.title + (f"\n{row.flags}" if row.flags else "")),
        *(words.number(value) for value in numbers),
        words.share(row.hit_rate),
        *(f"{words.gain(one)}\n{words.gain_interval(one)}".rstrip() for one in gains),
        _budget(row),
    ]


def _budget(row: LadderRow) -> RenderableType:
    if row.problem is not None:
        return Text(f"no verdict\n{row.problem}", style="yellow")
    if row.budget is None:
        return Text("none set", style="dim")
    word, style = BUDGET_WORDS[row.budget]
    open_ones = [one for one in row.budgets if one.status is not Status.PASS]
    reasons = "".join(f"\n{one.metric}: {one.reason}" for one in open_ones)
    return Text.assemble((word, style), reasons)


def comparison_table(title: str, rows: Iterable[ComparisonRow], *, plain: bool = False) -> Table:
    """Return comparisons, one a row: before and after, interval, what is allowed, the floor, the verdict."""
    table = _table(title, plain)
    table.add_column("series", overflow="fold", min_width=16)
    table.add_column("before → after", justify="right")
    for heading in ("change", "95 % interval", "allowed", "noise floor", "pairs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", min_width=12)
    for row in rows:
        one = row.comparison
        table.add_row(
            Text(f"{one.metric}\n{row.engine}, {row.workload}"),
            words.before_after(one),
            words.change(one.ratio),
            words.interval(one) or words.NOTHING,
            words.allowed(one.allowed) + (f"\n{one.allowed_by}" if one.allowed_by else ""),
            words.allowed(one.floor) if one.floor is not None else "not learnt",
            str(one.pairs),
            _verdict(row),
        )
    return table


def _verdict(row: ComparisonRow) -> Text:
    one = row.comparison
    if one.ratio is None:
        return Text.assemble((one.change, CHANGE_STYLES[one.change]), f"\n{one.reason}")
    more = f"\n{one.missing_pairs} more pairs would decide" if one.missing_pairs else ""
    notes = "".join(f"\n{note}" for note in row.notes)
    return Text.assemble((one.change, CHANGE_STYLES[one.change]), more + notes)


def _moved(row: ComparisonRow) -> RenderableType:
    return Text(f"{row.name}\n  moved: {row.moved}\n  baseline: run {row.baseline}\n")


def _list(title: str, lines: Iterable[str]) -> Iterable[RenderableType]:
    kept = list(lines)
    if kept:
        yield Group(Text(title, style="bold"), *(Text(f"  {line}") for line in kept), Text(""))


def _table(title: str, plain: bool) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.ASCII if plain else box.ROUNDED,
        show_lines=True,
        header_style="bold",
    )
