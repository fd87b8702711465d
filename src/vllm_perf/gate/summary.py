# SPDX-License-Identifier: Apache-2.0
"""Show a gate's outcome: for a reviewer in ten seconds, for a terminal, and for another program."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from vllm_perf.gate.decision import EXIT_CODES, deciding_comparison
from vllm_perf.gate.moved import moved
from vllm_perf.gate.runner import Outcome
from vllm_perf.history.environment import diff
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.metrics.table import BY_NAME
from vllm_perf.report.bar import bar
from vllm_perf.verdict.sequential import GateDecision
from vllm_perf.verdict.types import Change, Comparison
from vllm_perf.verdict.wording import amount, percent

SIGNS = {Change.REGRESSED: "❌", Change.IMPROVED: "🚀", Change.SAME: "✅", Change.INCONCLUSIVE: "❔"}
HEADLINES = {
    Change.REGRESSED: "Head is slower than base",
    Change.IMPROVED: "Head is faster than base, nothing is slower",
    Change.SAME: "Head is as fast as base",
    Change.INCONCLUSIVE: "No verdict (this is not a pass)",
}
Rows = Iterator[tuple[str, Comparison]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One gate, ready to be shown; ``base`` and ``head`` say in a few words what the sides are."""

    outcome: Outcome
    base: str
    head: str
    command: str = ""

    @property
    def change(self) -> Change:
        """Return the verdict of all."""
        return self.outcome.decision.change

    @property
    def exit_code(self) -> int:
        """Return the process's exit code."""
        return EXIT_CODES[self.change]

    def markdown(self) -> str:
        """Return the job summary: verdict, gating metrics, what moved and what differs, the rest folded."""
        blocks = [
            f"## {SIGNS[self.change]} {HEADLINES[self.change]}",
            self._sentence(),
            f"base: {self.base} · head: {self.head} · {self.effort()}",
            self._table(self._gating()),
            _bullets("What moved", self._moved()),
            _bullets("What differs", self.differs()),
            _bullets("Pairs that do not count", list(self.outcome.spoiled)),
            self._rest(),
        ]
        return "\n\n".join(block for block in blocks if block) + "\n"

    def text(self) -> str:
        """Return what a terminal shows."""
        lines = [f"{HEADLINES[self.change]}: {self._sentence()}", ""]
        lines += [
            f"  {workload:10} {one.metric:18} {_values(one):32} {_interval(one):28} {_allowed(one):22} "
            f"{_bar(one):21} {one.change}"
            for workload, one in self._gating()
        ]
        for title, items in (("moved", self._moved()), ("differs", self.differs())):
            lines += [f"  {title}: {item}" for item in items]
        lines += [f"  does not count: {item}" for item in self.outcome.spoiled]
        return "\n".join([*lines, f"  {self.effort()}"])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "verdict": str(self.change),
            "exit_code": self.exit_code,
            "reason": self._sentence(),
            "missing_pairs": self.outcome.decision.missing_pairs,
            "pairs": len(self.outcome.pairs),
            "resumed_boots": self.outcome.resumed_boots,
            "stopped": self.outcome.stopped,
            "took_s": round(self.outcome.took_s, 1),
            "base": self.base,
            "head": self.head,
            "workloads": {name: _state(state) for name, state in self.outcome.decision.workloads.items()},
            "moved": self._moved(),
            "differs": self.differs(),
            "spoiled": list(self.outcome.spoiled),
            "command": self.command,
        }

    def _sentence(self) -> str:
        missing = self.outcome.decision.missing_pairs
        more = ""
        if self.change is Change.INCONCLUSIVE:
            more = f"; about {missing} more pairs would decide" if missing else "; more pairs may not help"
        return f"{self.outcome.decision.reason}{more}."

    def effort(self) -> str:
        """Return how much was measured, and why no more."""
        minutes = self.outcome.took_s / 60
        resumed = f", {self.outcome.resumed_boots} boots taken over" if self.outcome.resumed_boots else ""
        pairs = len(self.outcome.pairs)
        return f"{pairs} pairs of boots in {minutes:.0f} min{resumed}; {self.outcome.stopped}"

    def _rows(self, *, gating: bool) -> Rows:
        for workload, state in self.outcome.decision.workloads.items():
            yield from ((workload, one) for one in state.comparisons if one.gating is gating)

    def _gating(self) -> list[tuple[str, Comparison]]:
        return list(self._rows(gating=True))

    def _moved(self) -> list[str]:
        """Return, for each workload that changed, which part of a request's time did."""
        said = []
        for workload, state in self.outcome.decision.workloads.items():
            if state.change not in (Change.REGRESSED, Change.IMPROVED):
                continue
            deciding = deciding_comparison(state)
            if deciding is not None:
                said.append(f"{workload}, {deciding.metric}: {self.moved_in(workload, deciding.metric)}")
        return said

    def moved_in(self, workload: str, metric: str) -> str:
        """Return which part of a request's time moved behind one metric, in a sentence."""
        return moved(self.outcome.pairs, workload, metric).sentence()

    def differs(self) -> list[str]:
        """Return what base and head were that is not the same: versions, flags, environment."""
        for pair in self.outcome.pairs:
            for name in self.outcome.decision.workloads:
                cells = pair.cells(name)
                if cells is not None and cells[0].cell is not None and cells[1].cell is not None:
                    return diff(cells[0].cell.environment, cells[1].cell.environment)
        return []

    def _rest(self) -> str:
        lines = [self._table(list(self._rows(gating=False)))]
        boots = [_boot_line(cell) for pair in self.outcome.pairs for cell in _boot_cells(pair.base.cells)]
        boots += [_boot_line(cell) for pair in self.outcome.pairs for cell in _boot_cells(pair.head.cells)]
        if boots:
            lines.append("Boots: " + ", ".join(boots))
        if self.command:
            lines.append(f"Reproduce: `{self.command}`")
        body = "\n\n".join(line for line in lines if line)
        return f"<details><summary>Everything else</summary>\n\n{body}\n\n</details>" if body else ""

    def _table(self, rows: list[tuple[str, Comparison]]) -> str:
        if not rows:
            return ""
        head = "| | workload | metric | base → head | change | allowed | noise floor | |\n|-|-|-|-|-|-|-|-|"
        lines = [
            f"| {_word(one)} | {workload} | {one.metric} | {_values(one)} "
            f"| {_interval(one)} | {_allowed(one)} | {_floor(one)} | {_code(_bar(one))} |"
            for workload, one in rows
        ]
        return "\n".join([head, *lines])


def _word(one: Comparison) -> str:
    # Only what decides gets a sign: thirty red crosses in the folded part would drown the four that count.
    return f"{SIGNS[one.change]} {one.change}" if one.gating else str(one.change)


def _values(one: Comparison) -> str:
    if one.base is None or one.head is None:
        return "–"
    return f"{amount(one.base)} → {amount(one.head)} {one.unit}"


def _interval(one: Comparison) -> str:
    if one.ratio is None or one.low is None or one.high is None:
        return "–"
    return f"{percent(one.ratio)} ({percent(one.low)} … {percent(one.high)})"


def _allowed(one: Comparison) -> str:
    return f"{one.allowed:.1%} ({one.allowed_by})" if one.allowed_by else "–"


def _floor(one: Comparison) -> str:
    return "not learnt" if one.floor is None else f"{one.floor:.1%}"


def _bar(one: Comparison) -> str:
    """Return the interval against what is allowed, worse to the right; nothing where there is none."""
    return "" if one.ratio is None else bar(one, BY_NAME[one.metric].direction)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _bullets(title: str, items: list[str]) -> str:
    return "\n".join([f"**{title}**", "", *(f"- {item}" for item in items)]) if items else ""


def _state(state: GateDecision) -> dict[str, Any]:
    return {
        "verdict": str(state.change),
        "pairs": state.pairs,
        "spoiled": state.spoiled,
        "missing_pairs": state.missing_pairs,
        "reason": state.reason,
        "comparisons": [asdict(one) | {"change": str(one.change)} for one in state.comparisons],
    }


def _boot_cells(cells: tuple[CellResult, ...]) -> Iterator[CellResult]:
    return (cell for cell in cells if cell.workload == BOOT)


def _boot_line(cell: CellResult) -> str:
    boot = cell.find("boot_time")
    return f"{cell.engine} {boot.value:.0f} s" if boot is not None and boot.value is not None else cell.engine
