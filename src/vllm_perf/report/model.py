# SPDX-License-Identifier: Apache-2.0
"""What a report shows, as plain data: built once, rendered in a terminal, in Markdown and in HTML."""

from dataclasses import dataclass
from enum import StrEnum

from vllm_perf.report.gain import Gain
from vllm_perf.verdict.types import BudgetVerdict, Comparison, Status


class Headline(StrEnum):
    """The verdict over everything; the worst that happened."""

    LAB_BROKEN = "lab broken"
    REGRESSED = "regressed"
    OVER_BUDGET = "over budget"
    FAILED = "failed"
    UNKNOWN = "no verdict"
    NOT_COMPARED = "not compared"
    NO_REGRESSION = "no regression found"
    IMPROVED = "improved"
    SAME = "same"
    WITHIN_BUDGET = "within budget"
    CREATED = "baseline created"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRow:
    """One rung; ``None`` is "not measured", and ``problem`` says why nothing was.

    ``gain_before`` and ``gain_first`` are of the output throughput, ``ttft_gain_first`` of the TTFT P50.
    ``budget`` is the worst of ``budgets``, ``None`` where none is set.
    """

    engine: str
    title: str
    flags: str = ""
    ttft_mean_ms: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p95_ms: float | None = None
    tpot_ms: float | None = None
    tokens_per_s: float | None = None
    hit_rate: float | None = None
    gain_before: Gain | None = None
    gain_first: Gain | None = None
    ttft_gain_first: Gain | None = None
    budgets: tuple[BudgetVerdict, ...] = ()
    problem: str | None = None

    @property
    def budget(self) -> Status | None:
        """Return the worst of the budgets."""
        statuses = {one.status for one in self.budgets}
        return next((one for one in (Status.FAIL, Status.NO_VERDICT, Status.PASS) if one in statuses), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The rungs of one workload, in order; the first is what every gain is taken against."""

    workload: str
    rows: tuple[LadderRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One series against its baseline; ``moved`` says which stage did it, ``baseline`` which run it was.

    ``explanation`` is the whole paragraph under a regression.
    """

    engine: str
    workload: str
    comparison: Comparison
    direction: str
    moved: str = ""
    baseline: str = ""
    explanation: str = ""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return what a person calls the series."""
        return f"{self.comparison.metric} of {self.engine} under {self.workload}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The requests' values of one series in both runs, sorted, finite, in ``unit``."""

    name: str
    unit: str
    base: tuple[float, ...]
    head: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run, with everything a reader is told about it.

    ``differs`` are the lines of what differs from the baselines in software and arguments, ``partnerless``
    the series on one side only, ``facts`` label and text of where and how it was measured.
    """

    headline: Headline
    sentence: str
    ladders: tuple[Ladder, ...] = ()
    comparisons: tuple[ComparisonRow, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    differs: tuple[str, ...] = ()
    partnerless: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def gating(self) -> tuple[ComparisonRow, ...]:
        """Return the comparisons that may turn red, the worst first."""
        order = ("regressed", "inconclusive", "improved", "same")
        rows = [row for row in self.comparisons if row.comparison.gating]
        return tuple(sorted(rows, key=lambda row: order.index(row.comparison.change)))

    @property
    def others(self) -> tuple[ComparisonRow, ...]:
        """Return the comparisons that are only shown."""
        return tuple(row for row in self.comparisons if not row.comparison.gating)
