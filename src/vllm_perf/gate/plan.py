# SPDX-License-Identifier: Apache-2.0
"""How much a gate may measure."""

from dataclasses import dataclass

from vllm_perf.spec.base import SpecError
from vllm_perf.verdict.sequential import GatePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many pairs a workload gets, and how long all may take.

    ``max_pairs`` is where the last look is; one more pair may follow to confirm what was flagged, and one
    for each that was spoiled (at most ``max_spoiled``).
    """

    min_pairs: int = 3
    max_pairs: int = 8
    max_spoiled: int = 3
    max_minutes: float | None = None

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

    @property
    def plan(self) -> GatePlan:
        """Return the part that the verdict needs."""
        return GatePlan(min_pairs=self.min_pairs, max_pairs=self.max_pairs, max_spoiled=self.max_spoiled)
