# SPDX-License-Identifier: Apache-2.0
"""Find, for each series of a run, the stored run it may be compared with, or say why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_perf.history.entry import RunEntry
from vllm_perf.history.environment import Environment
from vllm_perf.history.identity import Matcher
from vllm_perf.history.lineage import Lineage
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.spec.history import HistorySpec


class Missing(StrEnum):
    """Why a series has no baseline."""

    FIRST_RUN = "baseline created"
    NEW_SERIES = "new series"
    NO_GOOD_RUN = "no good run"
    OTHER_HARDWARE = "no baseline for this hardware"
    OTHER_SOFTWARE = "no baseline for this software"
    OTHER_WORKLOAD = "no baseline for this workload"
    OTHER_LINEAGE = "no baseline in this past"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a series is compared with; ``notes`` say what a reader should know about the choice."""

    key: SeriesKey
    run: RunEntry
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBaseline:
    """Why a series is compared with nothing; ``differences`` are those from the nearest run."""

    key: SeriesKey
    missing: Missing
    reason: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSet:
    """The answer for a whole run.

    ``unmeasured`` are series of this run that have no value, ``vanished`` series that recent good runs have
    and this one lacks. ``created``: nothing was stored before, so that this run makes the baseline, which is
    no failure.
    """

    found: dict[SeriesKey, Baseline]
    missing: dict[SeriesKey, NoBaseline]
    unmeasured: frozenset[SeriesKey] = frozenset()
    vanished: tuple[SeriesKey, ...] = ()
    created: bool = False

    @property
    def alone(self) -> tuple[NoBaseline, ...]:
        """Return the series of this run that have no baseline and should have one.

        A metric that has no value here and never had one (no SLO, no ``/metrics``) needs no partner, and
        neither does anything in the run that makes the baseline.
        """
        if self.created:
            return ()
        return tuple(item for item in self.missing.values() if item.key not in self.unmeasured)

    @property
    def partnerless(self) -> tuple[str, ...]:
        """Return one sentence for each series without a partner, on either side."""
        lines = [f"{item.key}: {item.reason}" for item in self.alone]
        return (*lines, *(f"{key}: in the baseline, not in this run" for key in self.vanished))


@dataclass(frozen=True, slots=True)
class _Search:
    """What one search needs at hand: ``ordered`` are the runs of the right past, the best first."""

    record: RunRecord
    others: Sequence[RunEntry]
    ordered: Sequence[tuple[RunEntry, str | None]]
    lineage: Lineage
    matcher: Matcher = field(repr=False)

    def environment(self, key: SeriesKey) -> Environment:
        return self.record.cell_of(key).environment

    def obstacles(self, run: RunEntry, key: SeriesKey) -> tuple[str, ...]:
        return self.matcher.obstacles(run, key, self.environment(key))


def find_baselines(
    runs: Sequence[RunEntry], record: RunRecord, *, lineage: Lineage, policy: HistorySpec
) -> BaselineSet:
    """Return the baseline of every series of ``record`` among ``runs``.

    Failed, invalid and regressed series are never one, nor is the record itself; of what is left, the first
    in ``lineage`` that matches in every identity field of ``policy``.
    """
    others = [run for run in runs if run.run_id != record.run_id]
    ordered = lineage.ordered(others)
    search = _Search(record, others, ordered, lineage, Matcher(policy.identity))
    answers = [_find(series.key, search) for series in record.series]
    found = {item.key: item for item in answers if isinstance(item, Baseline)}
    return BaselineSet(
        found=found,
        missing={item.key: item for item in answers if isinstance(item, NoBaseline)},
        unmeasured=frozenset(series.key for series in record.series if series.value is None),
        vanished=_vanished(search, policy),
        created=not others,
    )


def _find(key: SeriesKey, search: _Search) -> Baseline | NoBaseline:
    """Return the first that matches; a clean tree is compared with clean ones as long as there are any."""
    second_best: tuple[RunEntry, str | None] | None = None
    for run, note in search.ordered:
        if not run.good(key) or search.obstacles(run, key):
            continue
        if run.dirty and not search.record.suite.dirty:
            second_best = second_best or (run, note)
        else:
            return _baseline(key, run, note, search)
    if second_best is not None:
        return _baseline(key, *second_best, search)
    missing, reason, differences = _why_not(key, search)
    return NoBaseline(key=key, missing=missing, reason=reason, differences=differences)


def _baseline(key: SeriesKey, run: RunEntry, note: str | None, search: _Search) -> Baseline:
    notes = [note] if note else []
    if run.dirty and not search.record.suite.dirty:
        notes.append("measured on a tree with uncommitted changes")
    if not run.complete:
        notes.append("measured by a run that was cut short")
    differences = search.matcher.differences(run, key, search.environment(key))
    return Baseline(key=key, run=run, differences=differences, notes=tuple(notes))


def _why_not(key: SeriesKey, search: _Search) -> tuple[Missing, str, tuple[str, ...]]:
    if not search.others:
        return Missing.FIRST_RUN, "baseline created: nothing was stored before", ()
    stored = [run for run in search.others if run.has(key)]
    if not stored:
        reason = f"new: none of the {len(search.others)} stored runs has it (renamed, or never run before?)"
        return Missing.NEW_SERIES, reason, ()
    good = [run for run in stored if run.good(key)]
    if not good:
        ends = sorted({str(run.info(key).status) for run in stored})
        return Missing.NO_GOOD_RUN, f"no good run of it: {len(stored)} stored, all {' or '.join(ends)}", ()
    in_past = [run for run, _note in search.ordered if run.good(key)]
    if in_past:
        return _incomparable(key, in_past, search)
    if all(search.obstacles(run, key) for run in good):
        return _incomparable(key, good, search)
    fitting = [run for run in good if not search.obstacles(run, key)]
    return Missing.OTHER_LINEAGE, search.lineage.why_not(fitting[-1], len(fitting)), ()


def _incomparable(
    key: SeriesKey, good: Sequence[RunEntry], search: _Search
) -> tuple[Missing, str, tuple[str, ...]]:
    """Say what differs from the nearest run: the one with the fewest obstacles."""
    nearest = min(good, key=lambda run: len(search.obstacles(run, key)))
    obstacles = search.obstacles(nearest, key)
    missing = {
        "hardware": Missing.OTHER_HARDWARE,
        "software": Missing.OTHER_SOFTWARE,
        "workload": Missing.OTHER_WORKLOAD,
    }[obstacles[0].partition(".")[0]]
    return (
        missing,
        f"{missing}: the nearest, run {nearest.short}, differs in {'; '.join(obstacles)}",
        obstacles,
    )


def _vanished(search: _Search, policy: HistorySpec) -> tuple[SeriesKey, ...]:
    """Return the series of the last good runs on this hardware that the record lacks."""
    if not search.record.cells:
        return ()
    hardware = Matcher(policy.identity.model_copy(update={"software": (), "workload": ()}))
    current = search.record.cells[0].environment
    vanished: dict[SeriesKey, None] = {}
    looked_at = 0
    for run, _note in search.ordered:
        keys = run.good_keys()
        if not keys or hardware.obstacles(run, keys[0], current):
            continue
        vanished.update(dict.fromkeys(key for key in keys if key not in search.record.by_key))
        looked_at += 1
        if looked_at == policy.partner_window:
            break
    return tuple(vanished)
