# SPDX-License-Identifier: Apache-2.0
"""Compare a run with its baselines, series by series, through the one rule in ``verdict.comparison``."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from vllm_perf.history.attribution import Attribution, attribute
from vllm_perf.history.baseline import Baseline, BaselineSet
from vllm_perf.history.entry import RunEntry
from vllm_perf.history.floors import floor_hardware
from vllm_perf.history.record import Cell, RunRecord, Series, SeriesKey, SeriesStatus
from vllm_perf.history.sides import UNUSABLE, side_of
from vllm_perf.metrics.table import BY_NAME
from vllm_perf.spec.comparison import GOLDEN_MARK
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.comparison import compare_sides, overall
from vllm_perf.verdict.noise import CPU_BOOTS, GPU_BOOTS, STEADY_BOOTS, BootNoise, NoiseBook
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Change, Comparison
from vllm_perf.verdict.work import WorkKind

# Other engine arguments may change what is cached and preempted; the work asked for stays the same, and
# how much slower it gets is the very question.
ARGUMENTS_MAY_CHANGE = frozenset({WorkKind.CACHE_HITS, WorkKind.PREEMPTIONS})
Load = Callable[[RunEntry], RunRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One series with its baseline: the verdict, and which stage of a request moved."""

    key: SeriesKey
    comparison: Comparison
    baseline: Baseline
    attribution: Attribution


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """A whole run against its baselines, which are in ``bases`` by file.

    ``partnerless`` has a sentence for each series on one side only: ``missing`` are those of this run with
    the reason, ``vanished`` those of the baselines.
    """

    compared: tuple[Compared, ...]
    bases: Mapping[str, RunRecord] = field(default_factory=dict)
    partnerless: tuple[str, ...] = ()
    missing: Mapping[SeriesKey, str] = field(default_factory=dict)
    vanished: tuple[SeriesKey, ...] = ()
    created: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def change(self) -> Change | None:
        """Return the verdict over the gating metrics, ``None`` where nothing was compared."""
        return overall(one.comparison for one in self.compared) if self.compared else None

    @property
    def regressed(self) -> tuple[Compared, ...]:
        """Return the gating series that got worse."""
        return tuple(
            one
            for one in self.compared
            if one.comparison.gating and one.comparison.change is Change.REGRESSED
        )

    def of(self, key: SeriesKey) -> Compared | None:
        """Return one series' comparison."""
        return next((one for one in self.compared if one.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How to compare: the verdict's own rules, the floors learnt so far, and what identity means."""

    policy: Policy = field(default_factory=Policy)
    floors: NoiseBook = field(default_factory=NoiseBook)
    history: HistorySpec = field(default_factory=HistorySpec)

    def of(self, head: RunRecord, key: SeriesKey) -> Policy:
        """Return the policy with the floors of one cell's hardware and workload, and what boots differ by."""
        cell = head.cell_of(key)
        floors = self.floors.of(floor_hardware(cell.environment, self.history.identity), key.workload)
        return replace(self.policy, floors={**self.policy.floors, **floors}, boots=boots_of(cell))

    def between(self, base: RunRecord, head: RunRecord, key: SeriesKey) -> Policy:
        """Return the policy for one cell of two runs: other engine arguments may change its caching."""
        policy = self.of(head, key)
        if _arguments(base, key) == _arguments(head, key):
            return policy
        return replace(policy, expected_differences=policy.expected_differences | ARGUMENTS_MAY_CHANGE)


def boots_of(cell: Cell) -> BootNoise:
    """Return what boots are assumed to differ by: a real engine's by its hardware, else a golden one's.

    A server that someone else runs is taken for a real one unless it says that it is golden; of its hardware
    nothing is known but what this machine has.
    """
    hardware, software = cell.environment.hardware, cell.environment.software
    if cell.facts.external:
        golden = (software.vllm_version or "").endswith(GOLDEN_MARK)
    else:
        golden = software.torch_version is None
    if golden:
        return STEADY_BOOTS
    return GPU_BOOTS if hardware.gpu_names else CPU_BOOTS


def compare_run(
    head: RunRecord, baselines: BaselineSet, load: Load, rules: Rules, warnings: tuple[str, ...] = ()
) -> RunComparison:
    """Compare every series of ``head`` that has a baseline; ``warnings`` name what could not be looked at.

    Series are taken cell by cell and baseline by baseline, so that the allowance for several looks is made
    over the metrics of one cell. A baseline run is read once; one that cannot be read any more raises what
    ``load`` raises.
    """
    runs: dict[str, RunRecord] = {}
    groups: dict[tuple[str, str, str], list[Baseline]] = defaultdict(list)
    for baseline in baselines.found.values():
        groups[baseline.run.file, baseline.key.engine, baseline.key.workload].append(baseline)
    compared: dict[SeriesKey, Compared] = {}
    for (file, _engine, _workload), members in groups.items():
        if file not in runs:
            runs[file] = load(members[0].run)
        compared |= _compare_cell(head, runs[file], members, rules)
    return RunComparison(
        compared=tuple(compared[series.key] for series in head.series if series.key in compared),
        bases=runs,
        partnerless=baselines.partnerless,
        missing={item.key: item.reason for item in baselines.alone},
        vanished=baselines.vanished,
        created=baselines.created,
        warnings=warnings,
    )


def _compare_cell(
    head: RunRecord, base: RunRecord, members: Collection[Baseline], rules: Rules
) -> dict[SeriesKey, Compared]:
    first = next(iter(members)).key
    sides = [side_of(record, first.engine, first.workload) for record in (base, head)]
    known = {one.metric: one for one in compare_sides(sides[:1], sides[1:], rules.between(base, head, first))}
    return {
        member.key: Compared(
            key=member.key,
            comparison=_comparison(head.by_key[member.key], base.by_key[member.key], known),
            baseline=member,
            attribution=attribute(member.key, base, head),
        )
        for member in members
    }


def _arguments(record: RunRecord, key: SeriesKey) -> Mapping[str, object]:
    return record.cell_of(key).environment.software.engine_args


def _comparison(head: Series, base: Series, known: Mapping[str, Comparison]) -> Comparison:
    """Return the verdict of one series; one that is no metric of the catalogue, or has no value, has none."""
    found = known.get(head.metric)
    if found is not None and head.status not in UNUSABLE:
        return found
    if head.status in UNUSABLE:
        return _undecided(head, base, f"{head.status}: {'; '.join(head.reasons) or 'no value'}")
    return _undecided(head, base, "shown, not judged: one value a run says nothing about its noise")


def _undecided(head: Series, base: Series, reason: str) -> Comparison:
    usable = head.status not in UNUSABLE
    after = head.value if usable else None
    return Comparison(
        metric=head.metric,
        unit=head.unit,
        change=Change.INCONCLUSIVE,
        base=base.value,
        head=after,
        ratio=_ratio(base.value, after),
        low=None,
        high=None,
        allowed=0.0,
        floor=None,
        allowed_by="",
        pairs=1,
        missing_pairs=None,
        reason=reason,
        gating=BY_NAME[head.metric].gating if head.metric in BY_NAME else False,
    )


def _ratio(base: float | None, head: float | None) -> float | None:
    if base is None or head is None or not (0 < base < math.inf and 0 < head < math.inf):
        return None
    return head / base


def mark_regressed(head: RunRecord, comparison: RunComparison) -> RunRecord:
    """Return ``head`` with every regressed gating series marked, so that it is nobody's baseline."""
    worse = {one.key: one.comparison.reason for one in comparison.regressed}
    return replace(
        head,
        series=tuple(
            replace(one, status=SeriesStatus.REGRESSED, reasons=(*one.reasons, worse[one.key]))
            if one.key in worse and one.status is SeriesStatus.OK
            else one
            for one in head.series
        ),
    )
