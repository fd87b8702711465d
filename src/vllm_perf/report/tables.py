# SPDX-License-Identifier: Apache-2.0
"""The two tables of a terminal report: the ladder, and the comparison with the baseline."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vllm_perf.report import words
from vllm_perf.report.model import ComparisonRow, Ladder, LadderRow
from vllm_perf.verdict.types import Change, Comparison, Status

WIDE, ROOMY = 136, 112
NARROW_GAINS = ("gain\non last", "\non first")
GAINS = ("gain in tok/s\non the last", "\non the first", "in TTFT\non the first")
WIDE_HEADINGS = ("before → after", "change", "95 % interval", "allowed", "noise\nfloor", "pairs")
NARROW_HEADINGS = ("before → after\nchange (95 % interval)", "allowed\nnoise floor")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How much room there is: ``plain`` draws with ASCII alone; a narrow terminal gets no borders."""

    plain: bool
    width: int

    @property
    def narrow(self) -> bool:
        """Tell whether columns must be left out or stacked (80 columns hold what remains)."""
        return self.width < ROOMY

    def table(self, title: str) -> Table:
        """Return an empty table."""
        wide = self.width >= WIDE
        return Table(
            title=title,
            title_justify="left",
            title_style="bold",
            box=box.ASCII if self.plain else box.ROUNDED if wide else box.SIMPLE_HEAD,
            show_lines=wide,
            show_edge=wide or self.plain,
            pad_edge=wide,
            collapse_padding=not wide,
            header_style="bold",
        )


def ladder_table(ladder: Ladder, layout: Layout) -> Table:
    """Return the ladder: one rung a row, its flags under its name, intervals under their gains."""
    table = layout.table(f"Ladder, workload {ladder.workload}")
    table.add_column("rung\nflags added", overflow="fold", min_width=10)
    more = NARROW_GAINS if layout.narrow else ("cache\nhits", *GAINS)
    for heading in ("TTFT ms\nmean", "\nP50", "\nP95", "TPOT\nms", "\ntok/s", *more):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("budget", overflow="fold")
    for row in ladder.rows:
        table.add_row(*_ladder_cells(row, layout))
    return table


def _ladder_cells(row: LadderRow, layout: Layout) -> list[RenderableType]:
    numbers = (row.ttft_mean_ms, row.ttft_p50_ms, row.ttft_p95_ms, row.tpot_ms, row.tokens_per_s)
    gains = [row.gain_before, row.gain_first, *([] if layout.narrow else [row.ttft_gain_first])]
    return [
        Text(row.title + (f"\n{row.flags}" if row.flags else "")),
        *(words.number(value) for value in numbers),
        *([] if layout.narrow else [words.share(row.hit_rate)]),
        *(f"{words.gain(one)}\n{words.gain_interval(one)}".rstrip() for one in gains),
        _budget(row),
    ]


def _budget(row: LadderRow) -> Text:
    if row.problem is not None:
        return Text("no verdict", style="yellow")
    if row.budget is None:
        return Text("none set", style="dim")
    word, style = BUDGET_WORDS[row.budget]
    return Text(word, style=style)


def comparison_table(title: str, rows: Iterable[ComparisonRow], layout: Layout) -> Table:
    """Return comparisons, one a row: before and after, interval, what is allowed, the floor, the verdict."""
    table = layout.table(title)
    table.add_column("metric\nengine, workload", overflow="fold", min_width=16)
    headings = NARROW_HEADINGS if layout.narrow else WIDE_HEADINGS
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        one = row.comparison
        cells = _narrow_cells(one) if layout.narrow else _wide_cells(one)
        table.add_row(
            Text(f"{one.metric}\n{row.engine}, {row.workload}"),
            *cells,
            Text(words.verdict(one), style=CHANGE_STYLES[one.change]),
        )
    return table


def _wide_cells(one: Comparison) -> tuple[str, ...]:
    return (
        words.before_after(one),
        words.change(one.ratio),
        words.interval(one) or words.NOTHING,
        words.allowed_change(one),
        words.floor(one),
        _pairs(one),
    )


def _narrow_cells(one: Comparison) -> tuple[str, ...]:
    told = (
        f"{words.change(one.ratio)} ({words.interval(one)})"
        if one.low is not None
        else words.change(one.ratio)
    )
    return f"{words.before_after(one)}\n{told}", f"{words.allowed_change(one)}\n{words.floor(one)}"


def _pairs(one: Comparison) -> str:
    return f"{one.pairs}\n+{one.missing_pairs}?" if one.missing_pairs else str(one.pairs)
