# SPDX-License-Identifier: Apache-2.0
"""In which order the two sides are booted, and when enough is enough."""

from collections.abc import Iterator
from dataclasses import dataclass

from vllm_perf.gate.boot import Phase, Side, Slot
from vllm_perf.spec.base import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be measured. ``retries``: how often a spoiled pair is measured again.

    ``confirm_pairs`` fresh pairs of a flagged workload are run before it turns red (0: none).
    """

    min_pairs: int = 3
    max_pairs: int = 8
    max_minutes: float | None = None
    confirm_pairs: int = 2
    retries: int = 2

    def __post_init__(self) -> None:
        """Refuse limits that contradict themselves.

        Raises:
            SpecError: naming the option to change.
        """
        if self.min_pairs < 2:
            raise SpecError("--min-pairs: at least 2, one pair says nothing about how much boots differ")
        if self.max_pairs < self.min_pairs:
            raise SpecError(f"--max-pairs {self.max_pairs} is less than --min-pairs {self.min_pairs}")
        if self.max_minutes is not None and self.max_minutes <= 0:
            raise SpecError("--max-minutes must be more than 0")


def order(pair: int) -> tuple[Side, Side]:
    """Return which side a pair boots first: A B, B A, A B, …, so that a drift takes from both sides alike."""
    return ("base", "head") if pair % 2 == 0 else ("head", "base")


def slots(phase: Phase, pair: int, attempt: int = 0, workloads: tuple[str, ...] = ()) -> Iterator[Slot]:
    """Yield the two boots of a pair in their order."""
    for side in order(pair):
        yield Slot(phase=phase, pair=pair, side=side, attempt=attempt, workloads=workloads)
