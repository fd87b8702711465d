# SPDX-License-Identifier: Apache-2.0
"""What the gate measures: boots of two sides, in pairs, each boot one replicate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from vllm_perf.lab.result import CellResult

Side = Literal["base", "head"]
Phase = Literal["main", "confirm"]
SIDES: tuple[Side, Side] = ("base", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One boot to be made: which pair it belongs to, which side it is, and how often the pair was tried.

    ``confirm`` pairs are fresh runs of cells that the ``main`` pairs flagged; ``workloads`` names what is
    sent (empty: everything).
    """

    phase: Phase
    pair: int
    side: Side
    attempt: int = 0
    workloads: tuple[str, ...] = ()


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
    def slot(self) -> Slot:
        """Return the base's slot: phase, pair and attempt are those of the pair."""
        return self.base.slot

    @property
    def took_s(self) -> float:
        """Return how long both boots took, seconds."""
        return self.base.took_s + self.head.took_s

    def side(self, side: Side) -> Boot:
        """Return one of the two boots."""
        return self.base if side == "base" else self.head


class Lab(Protocol):
    """What the gate needs of the machine: boot one side afresh, send every workload, stop it."""

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


def usable(pairs: Sequence[Pair], workload: str) -> list[Pair]:
    """Return the pairs in which both sides of a workload were measured and are worth judging."""
    kept = []
    for pair in pairs:
        cells = [pair.side(side).cell(workload) for side in SIDES]
        if all(cell is not None and not cell.invalid and cell.failure is None for cell in cells):
            kept.append(pair)
    return kept
