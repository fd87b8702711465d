# SPDX-License-Identifier: Apache-2.0
"""What must be known of a stored run to choose a baseline, without reading the run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vllm_perf.history.environment import Environment
from vllm_perf.history.parts import PartKeys, PartTable
from vllm_perf.history.record import RunRecord, SeriesKey, SeriesStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesInfo:
    """One series of a stored run: its end and its value."""

    key: SeriesKey
    unit: str
    direction: str
    status: SeriesStatus
    value: float | None

    @property
    def good(self) -> bool:
        """Tell whether a later run may be compared with it."""
        return self.status is SeriesStatus.OK and self.value is not None and abs(self.value) != float("inf")


@dataclass(frozen=True, kw_only=True)  # no slots: the lookup is cached
class RunEntry:
    """One stored run; ``cells`` is by (engine, workload), its environments are in ``parts``."""

    file: str
    run_id: str
    created: str
    commit: str | None
    branch: str | None
    dirty: bool | None
    complete: bool
    cells: Mapping[tuple[str, str], PartKeys]
    parts: PartTable = field(compare=False, repr=False)
    series: tuple[SeriesInfo, ...]

    @cached_property
    def by_key(self) -> dict[SeriesKey, SeriesInfo]:
        """Return the series by what they are matched by."""
        return {info.key: info for info in self.series}

    def environment_of(self, key: SeriesKey) -> Environment:
        """Return what a series was measured on, with and for."""
        return self.parts.environment(self.cells[key.engine, key.workload])

    def good_keys(self) -> Iterator[SeriesKey]:
        """Yield the series that a later run may be compared with."""
        return (info.key for info in self.series if info.good)

    @property
    def short(self) -> str:
        """Return the name a person uses for the run: its id, its commit and its day."""
        commit = self.commit[:9] if self.commit else "no commit"
        return f"{self.run_id} ({commit}{' dirty' if self.dirty else ''}, {self.created[:16]})"


def entry_of(record: RunRecord, file: str) -> RunEntry:
    """Return the entry of ``record`` as stored in ``file``."""
    parts = PartTable()
    return RunEntry(
        file=file,
        run_id=record.run_id,
        created=record.created,
        commit=record.suite.commit,
        branch=record.suite.branch,
        dirty=record.suite.dirty,
        complete=record.complete,
        cells={(cell.engine, cell.workload): parts.add(cell.environment) for cell in record.cells},
        parts=parts,
        series=tuple(
            SeriesInfo(
                key=one.key, unit=one.unit, direction=one.direction, status=one.status, value=one.value
            )
            for one in record.series
        ),
    )
