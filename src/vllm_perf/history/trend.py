# SPDX-License-Identifier: Apache-2.0
"""A series over many runs: its values in order, where its level changed, how far it is from its anchor."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vllm_perf.history.entry import RunEntry, SeriesInfo
from vllm_perf.history.environment import identity_key
from vllm_perf.history.parts import PartKeys
from vllm_perf.history.record import SeriesKey, SeriesStatus
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.changepoints import ChangePoint, Drift, drift_from_anchor, find

# A run that missed its budget or regressed was measured all the same; without it a shift would be invisible.
MEASURED = (SeriesStatus.OK, SeriesStatus.FAILED_BUDGET, SeriesStatus.REGRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run's value."""

    run: RunEntry
    value: float
    status: SeriesStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A level change: ``before`` is the last run of the old level, ``first`` the first of the new."""

    before: Point
    first: Point
    ratio: float
    worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One series on one identity (machine and load), oldest first.

    ``anchor`` is the run that the drift is measured from and its name.
    """

    key: SeriesKey
    unit: str
    direction: str
    points: tuple[Point, ...]
    shifts: tuple[Shift, ...] = ()
    anchor: tuple[str, Point] | None = None
    drift: Drift | None = None


def trends(
    runs: Sequence[RunEntry],
    policy: HistorySpec,
    wanted: Iterable[SeriesKey],
    *,
    anchors: Mapping[str, str] | None = None,
    allowed: float = 0.02,
) -> tuple[Trend, ...]:
    """Return the trends of ``wanted`` among ``runs`` (oldest first), one for each identity.

    Values that cannot be on a logarithmic scale (0, infinity) are left out. ``allowed`` is the drift that
    nobody minds, as a share.
    """
    names = {file: name for name, file in (anchors or {}).items()}
    identities: dict[PartKeys, str] = {}
    found: dict[tuple[SeriesKey, str], list[Point]] = defaultdict(list)
    asked = set(wanted)
    for run in runs:
        for key in asked.intersection(run.names.keys):
            info = run.info(key)
            if not _drawable(info):
                continue
            parts = run.cells[key.engine, key.workload]
            if parts not in identities:
                identities[parts] = identity_key(run.environment_of(key), policy.identity)
            assert info.value is not None
            found[key, identities[parts]].append(Point(run=run, value=info.value, status=info.status))
    return tuple(
        _trend(key, points, names, allowed)
        for (key, _), points in sorted(found.items(), key=lambda item: (item[0][0], item[1][-1].run.created))
    )


def _drawable(info: SeriesInfo) -> bool:
    return info.status in MEASURED and info.value is not None and 0 < info.value < math.inf


def _trend(key: SeriesKey, points: Sequence[Point], names: Mapping[str, str], allowed: float) -> Trend:
    info = points[-1].run.info(key)
    values = [point.value for point in points]
    anchored = [(names[point.run.file], point) for point in points if point.run.file in names]
    anchor = anchored[-1] if anchored else None
    return Trend(
        key=key,
        unit=info.unit,
        direction=info.direction,
        points=tuple(points),
        shifts=tuple(_shift(change, points, info.direction) for change in find(values)),
        anchor=anchor,
        drift=drift_from_anchor(values, anchor[1].value, allowed) if anchor else None,
    )


def _shift(change: ChangePoint, points: Sequence[Point], direction: str) -> Shift:
    return Shift(
        before=points[change.index - 1],
        first=points[change.index],
        ratio=change.ratio,
        worse=(change.ratio > 1) == (direction == "lower"),
    )
