# SPDX-License-Identifier: Apache-2.0
"""What must be known of a stored run to choose a baseline, without reading the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vllm_perf.history.environment import Environment
from vllm_perf.history.packing import pack_floats, unpack_floats
from vllm_perf.history.parts import PartKeys, PartTable
from vllm_perf.history.record import RunRecord, Series, SeriesKey, SeriesStatus

GOOD = "g"
_LETTERS = {
    SeriesStatus.OK: "o",
    SeriesStatus.FAILED_BUDGET: "b",
    SeriesStatus.REGRESSED: "r",
    SeriesStatus.INVALID: "i",
    SeriesStatus.FAILED: "f",
}
_STATUSES = {GOOD: SeriesStatus.OK, **{letter: status for status, letter in _LETTERS.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesInfo:
    """One series of a stored run: its end and its value."""

    key: SeriesKey
    unit: str
    direction: str
    status: SeriesStatus
    value: float | None
    good: bool


@dataclass(frozen=True, kw_only=True)  # no slots: the lookup is cached
class SeriesNames:
    """The series of a run; most runs have the same, and share one of these."""

    keys: tuple[SeriesKey, ...]
    units: tuple[str, ...]
    directions: tuple[str, ...]

    @cached_property
    def position(self) -> dict[SeriesKey, int]:
        """Return where each series stands."""
        return {key: place for place, key in enumerate(self.keys)}

    def lines(self) -> list[tuple[str, ...]]:
        """Return one row a series: engine, workload, metric, unit, direction."""
        return [
            (*key, unit, better)
            for key, unit, better in zip(self.keys, self.units, self.directions, strict=True)
        ]

    @classmethod
    def from_lines(cls, lines: list[list[str]]) -> "SeriesNames":
        """Undo :meth:`lines`."""
        return cls(
            keys=tuple(SeriesKey(*line[:3]) for line in lines),
            units=tuple(line[3] for line in lines),
            directions=tuple(line[4] for line in lines),
        )


@dataclass(frozen=True, kw_only=True)  # no slots: the values are cached
class RunEntry:
    """One stored run.

    ``cells`` is by (engine, workload), its environments are in ``parts``. ``ends`` has one letter a series
    of ``names``, ``packed`` their values, unpacked only when looked at: of 1,000 runs with 200 series each,
    choosing a baseline looks at no value at all.
    """

    file: str
    run_id: str
    created: str
    commit: str | None
    branch: str | None
    dirty: bool | None
    complete: bool
    cells: Mapping[tuple[str, str], PartKeys]
    names: SeriesNames
    ends: str
    packed: str
    parts: PartTable = field(compare=False, repr=False)

    def has(self, key: SeriesKey) -> bool:
        """Tell whether the run has this series."""
        return key in self.names.position

    def good(self, key: SeriesKey) -> bool:
        """Tell whether a later run may be compared with this series."""
        place = self.names.position.get(key)
        return place is not None and self.ends[place] == GOOD

    def good_keys(self) -> list[SeriesKey]:
        """Return the series that a later run may be compared with."""
        return [key for key, end in zip(self.names.keys, self.ends, strict=True) if end == GOOD]

    def info(self, key: SeriesKey) -> SeriesInfo:
        """Return one series.

        Raises:
            KeyError: the run has no such series.
        """
        place = self.names.position[key]
        return SeriesInfo(
            key=key,
            unit=self.names.units[place],
            direction=self.names.directions[place],
            status=_STATUSES[self.ends[place]],
            value=self._values[place],
            good=self.ends[place] == GOOD,
        )

    @cached_property
    def series(self) -> tuple[SeriesInfo, ...]:
        """Return all series, in the record's order."""
        return tuple(self.info(key) for key in self.names.keys)

    @cached_property
    def _values(self) -> tuple[float | None, ...]:
        numbers = unpack_floats(self.packed)
        half = len(numbers) // 2
        return tuple(
            value if has else None for value, has in zip(numbers[:half], numbers[half:], strict=True)
        )

    def environment_of(self, key: SeriesKey) -> Environment:
        """Return what a series was measured on, with and for."""
        return self.parts.environment(self.cells[key.engine, key.workload])

    @property
    def short(self) -> str:
        """Return the name a person uses for the run: its id, its commit and its day."""
        commit = self.commit[:9] if self.commit else "no commit"
        return f"{self.run_id} ({commit}{' dirty' if self.dirty else ''}, {self.created[:16]})"


def entry_of(record: RunRecord, file: str) -> RunEntry:
    """Return the entry of ``record`` as stored in ``file``."""
    parts = PartTable()
    values = tuple(one.value for one in record.series)
    return RunEntry(
        file=file,
        run_id=record.run_id,
        created=record.created,
        commit=record.suite.commit,
        branch=record.suite.branch,
        dirty=record.suite.dirty,
        complete=record.complete,
        cells={(cell.engine, cell.workload): parts.add(cell.environment) for cell in record.cells},
        names=SeriesNames(
            keys=tuple(one.key for one in record.series),
            units=tuple(one.unit for one in record.series),
            directions=tuple(one.direction for one in record.series),
        ),
        ends="".join(_letter(one) for one in record.series),
        packed=pack_floats(
            tuple(0.0 if value is None else value for value in values)
            + tuple(0.0 if value is None else 1.0 for value in values)
        ),
        parts=parts,
    )


def _letter(series: Series) -> str:
    return GOOD if series.good else _LETTERS[series.status]
