# SPDX-License-Identifier: Apache-2.0
"""The noise floor: how much two boots of the same engine differ, learnt from A/A pairs."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Past A/A pairs weigh at most this many degrees of freedom against the pairs at hand, so that a learnt
# quiet past cannot outvote a noisy today.
MAX_WEIGHT = 12
# A pair further out than this many robust deviations is pulled in: one stalled host is not the floor.
CLIP = 3.0
# A learnt floor is mixed with this many pairs of steady boots: a dozen pairs of one quiet hour have not met
# the moment in which the host takes the CPU away (docs/results/alarm-rates.md: what that costs).
ASSUMED_PAIRS = 6
NORMAL_CONSISTENCY = 1.4826
KEPT = 200
Z = 1.96

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootNoise:
    """What boots of one engine are assumed to differ by until A/A pairs teach it.

    Standard deviations of ln(value) between boots, as shares: ``first_token`` for the times up to it (they
    hang on the host's CPU), ``rest`` for everything else.
    """

    first_token: float
    rest: float

    def of(self, metric: str) -> float:
        """Return the one that holds for a metric."""
        return self.first_token if metric.startswith(("ttft", "ttfa")) else self.rest


# An engine with no hardware of its own to waver: the golden one.
STEADY_BOOTS = BootNoise(first_token=0.02, rest=0.02)
# What unchanged ladders showed, measured twice, rounded up for the few boots that it was (docs/results/
# alarm-rates.md, "Real engines"): on an H200, and for vLLM on two shared CPU cores.
GPU_BOOTS = BootNoise(first_token=0.07, rest=0.03)
CPU_BOOTS = BootNoise(first_token=0.08, rest=0.08)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """What A/A pairs of one (hardware, workload, metric) showed.

    ``log_ratios`` are ln(second / first) of pairs of boots of the same engine, newest last.
    """

    log_ratios: tuple[float, ...]

    @property
    def sigma(self) -> float:
        """Return the standard deviation of one pair's log ratio.

        Formula: root mean square around 0 (the truth of an A/A pair), values beyond 3 robust deviations
        (1.4826 x median absolute value) pulled in to 3.
        """
        if not self.log_ratios:
            raise ValueError("a noise floor of no A/A pairs")
        robust = NORMAL_CONSISTENCY * statistics.median(abs(value) for value in self.log_ratios)
        limit = CLIP * robust if robust > 0 else math.inf
        return math.sqrt(statistics.fmean(min(abs(value), limit) ** 2 for value in self.log_ratios))

    @property
    def weight(self) -> int:
        """Return the degrees of freedom it brings to a comparison."""
        return min(len(self.log_ratios), MAX_WEIGHT)

    @property
    def cautious_sigma(self) -> float:
        """Return the standard deviation for single boots, which cannot show how noisy today is.

        Formula: sqrt((n sigma^2 + 6 * 2 * 2 %^2) / (n + 6)), the mean of a scaled inverse chi-square prior
        worth 6 pairs of steady boots with ``n`` learnt ones; never below sigma: a noisy past is believed at
        once.
        """
        n = len(self.log_ratios)
        assumed = 2 * STEADY_BOOTS.rest**2
        mixed = (n * self.sigma**2 + ASSUMED_PAIRS * assumed) / (n + ASSUMED_PAIRS)
        return max(self.sigma, math.sqrt(mixed))

    def share(self, pairs: int) -> float:
        """Return the floor of a comparison of ``pairs`` pairs: exp(1.96 sigma / sqrt(pairs)) - 1.

        Of comparisons of an engine with itself 95 % stay within it.
        """
        return math.expm1(Z * self.sigma / math.sqrt(pairs))

    def with_pairs(self, log_ratios: Iterable[float]) -> "NoiseFloor":
        """Return the floor with more A/A pairs; the oldest beyond 200 are dropped."""
        finite = [value for value in log_ratios if math.isfinite(value)]
        return NoiseFloor(log_ratios=(*self.log_ratios, *finite)[-KEPT:])


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseBook:
    """All floors learnt so far, by (hardware, workload, metric); unchangeable, so that it can be shared."""

    floors: Mapping[Key, NoiseFloor] = field(default_factory=dict)

    def of(self, hardware: str, workload: str) -> dict[str, NoiseFloor]:
        """Return the floors of one workload on one kind of hardware, by metric."""
        return {
            metric: floor
            for (hw, wl, metric), floor in self.floors.items()
            if (hw, wl) == (hardware, workload)
        }

    def learn(self, hardware: str, workload: str, log_ratios: Mapping[str, Sequence[float]]) -> "NoiseBook":
        """Return the book with more A/A pairs, given as metric to log ratios."""
        floors = dict(self.floors)
        for metric, values in log_ratios.items():
            key = (hardware, workload, metric)
            known = floors.get(key, NoiseFloor(log_ratios=()))
            grown = known.with_pairs(values)
            if grown.log_ratios:
                floors[key] = grown
        return NoiseBook(floors=floors)

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain data for a JSON file."""
        return [
            {"hardware": hw, "workload": wl, "metric": metric, "log_ratios": list(floor.log_ratios)}
            for (hw, wl, metric), floor in sorted(self.floors.items())
        ]

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, Any]]) -> "NoiseBook":
        """Read what :meth:`to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: a row is not one of its own.
        """
        return cls(
            floors={
                (str(row["hardware"]), str(row["workload"]), str(row["metric"])): NoiseFloor(
                    log_ratios=tuple(float(value) for value in row["log_ratios"])
                )
                for row in rows
            }
        )
