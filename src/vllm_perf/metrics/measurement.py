# SPDX-License-Identifier: Apache-2.0
"""One metric of one run: a value with its samples, or the reason why there is none."""

from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower", "higher"]


class MetricUnavailable(Exception):
    """Say why a metric has no value; absent is never 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One metric of one (engine, workload).

    ``value`` is in ``unit``; ``None`` with ``unavailable`` saying why. ``samples`` are what the value was
    taken from, one a request (failed ones as ``inf``) or one a repetition; ``direction`` is what is better.
    ``low``/``high`` is the 95 % interval of ``value`` where one can be given; either may be ``None`` alone
    (unbounded on that side). ``estimated``: it leans on token counts that nobody reported. A measurement
    without ``samples`` is an exact count, which has no interval and needs none.
    """

    metric: str
    unit: str
    direction: Direction
    value: float | None
    samples: tuple[float, ...] = ()
    sent: int = 0
    ok: int = 0
    failed: int = 0
    low: float | None = None
    high: float | None = None
    unavailable: str | None = None
    gating: bool = False
    estimated: bool = False

    def require(self) -> float:
        """Return the value.

        Raises:
            MetricUnavailable: there is none.
        """
        if self.value is None:
            raise MetricUnavailable(f"{self.metric}: {self.unavailable or 'no value'}")
        return self.value
