# SPDX-License-Identifier: Apache-2.0
"""What the gate measures: boots of two sides, in pairs, each boot one replicate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.sequential import SideName

SIDES: tuple[SideName, SideName] = ("base", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One boot to be made: which pair it belongs to, which side it is, and what is sent to it."""

    pair: int
    side: SideName
    workloads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One boot that was measured: one cell a workload. ``started_s`` is wall time: label and age."""

    slot: Slot
    cells: tuple[CellResult, ...]
    started_s: float
    took_s: float

    def cell(self, workload: str) -> CellResult | None:
        """Return the cell of one workload, ``None`` where this boot did not send it."""
        return next((cell for cell in self.cells if cell.workload == workload), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides of one comparison, measured one right after the other on the same device."""

    base: Boot
    head: Boot

    @property
    def number(self) -> int:
        """Return the pair's number as people count, from 1."""
        return self.base.slot.pair + 1

    @property
    def took_s(self) -> float:
        """Return how long both boots took, seconds."""
        return self.base.took_s + self.head.took_s

    def cells(self, workload: str) -> tuple[CellResult, CellResult] | None:
        """Return base's and head's cell of one workload, ``None`` where this pair did not send it."""
        base, head = self.base.cell(workload), self.head.cell(workload)
        return None if base is None or head is None else (base, head)


class Lab(Protocol):
    """What the gate needs of the machine: boot one side afresh, send workloads, stop it."""

    def measure(self, slot: Slot) -> tuple[CellResult, ...]:
        """Return what one fresh boot of ``slot.side`` measured; nothing is left running.

        Raises:
            LabError: it could not be measured.
        """

    def identity(self) -> dict[str, Any]:
        """Return, as plain data and without keys, what is compared on what: two gates that differ in it
        never share a journal.
        """

    def close(self) -> None:
        """Give the device back."""


def sent(pairs: Sequence[Pair], workload: str) -> list[Pair]:
    """Return the pairs that sent a workload."""
    return [pair for pair in pairs if pair.cells(workload) is not None]
