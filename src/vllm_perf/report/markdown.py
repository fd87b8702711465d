# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown for a job summary or a pull request: ten seconds' reading first, then the rest.

Order: verdict; the gating metrics with interval, floor and a bar; what differs; series without a partner;
everything else folded away.
"""

from collections.abc import Iterable, Sequence

from vllm_perf.report import words
from vllm_perf.report.bar import bar
from vllm_perf.report.model import ComparisonRow, Headline, Ladder, LadderRow, Report
from vllm_perf.verdict.types import Change, Status

MARKS = {
    Headline.LAB_BROKEN: "🔧",
    Headline.REGRESSED: "🔴",
    Headline.OVER_BUDGET: "🔴",
    Headline.FAILED: "🔴",
    Headline.UNKNOWN: "🟡",
    Headline.NOT_COMPARED: "🟡",
    Headline.NO_REGRESSION: "🟡",
    Headline.IMPROVED: "🟢",
    Headline.SAME: "🟢",
    Headline.WITHIN_BUDGET: "🟢",
    Headline.CREATED: "⚪",
    Headline.MEASURED: "⚪",
}
CHANGE_MARKS = {
    Change.REGRESSED: "🔴",
    Change.IMPROVED: "🟢",
    Change.SAME: "⚪",
    Change.INCONCLUSIVE: "🟡",
}
BUDGET_MARKS = {Status.PASS: "🟢 met", Status.FAIL: "🔴 **not met**", Status.NO_VERDICT: "🟡 no verdict"}
MOST_ROWS = 20


def markdown(report: Report) -> str:
    """Return the report as Markdown."""
    parts = [
        f"## {MARKS[report.headline]} {str(report.headline).capitalize()}\n\n{escape(report.sentence)}",
        *_gating(report.gating),
        *_lines("No verdict possible", report.problems),
        *_moved(report.gating),
        *_lines("What differs", report.differs),
        *_lines("Without a partner", report.partnerless),
        *_details(report),
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return ``text`` so that Markdown shows it and a table cell holds it."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _gating(rows: Sequence[ComparisonRow]) -> Iterable[str]:
    if not rows:
        return
    shown = rows[:MOST_ROWS]
    yield comparison_table(shown)
    note = words.by_prompt_note(row.comparison for row in shown)
    if note:
        yield f"<sub>{note}</sub>"
    if len(rows) > len(shown):
        yield f"and {len(rows) - len(shown)} more gating metrics, none worse than these (folded below)."


def comparison_table(rows: Iterable[ComparisonRow]) -> str:
    """Return comparisons as a table with a bar: ``┊`` is the allowed change, worse lies to the right."""
    lines = [
        "| | metric | before → after | change (interval) | better ◂ `┊` ok `┊` ▸ worse | allowed | floor |",
        "|---|---|---:|---:|:---:|---:|---:|",
    ]
    for row in rows:
        one = row.comparison
        told = f" ({words.interval(one)})" if words.interval(one) else f" ({escape(one.reason)})"
        cells = (
            f"{CHANGE_MARKS[one.change]} {words.verdict(one)}",
            f"**{escape(one.metric)}** {escape(row.engine)} / {escape(row.workload)}",
            escape(words.before_after(one)),
            f"{words.change(one.ratio)}{told}",
            f"`{bar(one, row.direction)}`",
            words.allowed_change(one),
            words.floor(one),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _moved(rows: Iterable[ComparisonRow]) -> Iterable[str]:
    worse = [row for row in rows if row.comparison.change is Change.REGRESSED]
    told = [f"{row.name}: {row.moved}" for row in worse if row.moved]
    yield from _lines("What moved", told)


def _lines(title: str, lines: Sequence[str]) -> Iterable[str]:
    if lines:
        yield f"**{title}**\n\n" + "\n".join(f"- {escape(line)}" for line in lines)


def _details(report: Report) -> Iterable[str]:
    for ladder in report.ladders:
        yield _folded(f"Ladder: {ladder.workload}", ladder_table(ladder))
    if len(report.gating) > MOST_ROWS:
        yield _folded("All gating metrics", comparison_table(report.gating))
    if report.others:
        yield _folded("Shown, not judged", comparison_table(report.others))
    notes = dict.fromkeys(
        f"{row.engine} / {row.workload}: {note}" for row in report.comparisons for note in row.notes
    )
    for title, lines in (("About the baselines", tuple(notes)), ("Warnings", report.warnings)):
        if lines:
            yield _folded(title, "\n".join(f"- {escape(line)}" for line in lines))
    if report.facts:
        facts = "\n".join(f"| {escape(label)} | {escape(text)} |" for label, text in report.facts)
        yield _folded("Where and how", f"| | |\n|---|---|\n{facts}")


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n\n{body}\n\n</details>"


def ladder_table(ladder: Ladder) -> str:
    """Return the ladder as a table."""
    headings = ("TTFT mean", "P50", "P95", "TPOT", "tok/s", "hits", "gain, before", "gain, first")
    lines = [
        f"| rung | flags added | {' | '.join(headings)} | budget |",
        f"|---|---|{'---:|' * len(headings)}---|",
        *(_ladder_line(row) for row in ladder.rows),
    ]
    return "\n".join(lines)


def _ladder_line(row: LadderRow) -> str:
    times = (row.ttft_mean_ms, row.ttft_p50_ms, row.ttft_p95_ms, row.tpot_ms)
    budget = BUDGET_MARKS[row.budget] if row.budget is not None else "none set"
    cells = (
        escape(row.title),
        f"`{row.flags}`".replace("|", "\\|") if row.flags else "",
        *(f"{words.number(value)} ms" if value is not None else words.NOTHING for value in times),
        words.number(row.tokens_per_s),
        words.share(row.hit_rate),
        *(_gain_cell(words.gain(one), words.gain_interval(one)) for one in (row.gain_before, row.gain_first)),
        f"🟡 {escape(row.problem)}" if row.problem else budget,
    )
    return "| " + " | ".join(cells) + " |"


def _gain_cell(value: str, interval: str) -> str:
    return f"{value} ({interval})" if interval else value
