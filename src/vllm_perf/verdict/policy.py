# SPDX-License-Identifier: Apache-2.0
"""How a comparison decides: what is allowed, at which confidence, with which noise floors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_perf.metrics.table import BY_NAME, Metric
from vllm_perf.verdict.noise import STEADY_BOOTS, BootNoise, NoiseFloor
from vllm_perf.verdict.work import WorkKind

# A standard deviation from fewer A/A pairs than this is itself mostly noise.
LEARNT_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How two sides are compared.

    ``allowed`` is the change nobody minds, as a share (0.03: 3 %), ``allowed_by_metric`` overrides it;
    tails (P90 and above) are allowed twice as much.
    ``alpha`` is the chance of an alarm, over all gating metrics together, when nothing changed; intervals
    miss the truth with chance ``interval_alpha``. ``floors`` are learnt noise floors by metric.
    ``expected_differences`` names work that is meant to differ because the sides' configurations do (cache
    hits where head switches prefix caching off); it is told but does not stop the comparison.
    ``boots`` is what boots are assumed to differ by where no floor was learnt.
    ``max_pairs`` is how far "pairs missing" looks.
    """

    allowed: float = 0.03
    allowed_by_metric: Mapping[str, float] = field(default_factory=dict)
    alpha: float = 0.02
    interval_alpha: float = 0.05
    floors: Mapping[str, NoiseFloor] = field(default_factory=dict)
    expected_differences: frozenset[WorkKind] = frozenset()
    boots: BootNoise = STEADY_BOOTS
    max_pairs: int = 100

    def learnt(self, metric: str) -> NoiseFloor | None:
        """Return the noise floor of a metric once enough A/A pairs have taught it."""
        floor = self.floors.get(metric)
        return floor if floor is not None and len(floor.log_ratios) >= LEARNT_PAIRS else None

    def allowed_change(self, metric: str, base: float, pairs: int) -> tuple[float, str]:
        """Return the largest of the asked, the learnt and the absolute floor, and which that is."""
        known = BY_NAME.get(metric)
        options = [self._asked(metric, known)]
        floor = self.learnt(metric)
        if floor is not None:
            options.append((floor.share(pairs), "noise floor"))
        absolute = known.absolute_floor if known else None
        if absolute is not None and 0 < base < math.inf:
            options.append((absolute / base, f"{absolute:g} {known.unit if known else ''}".strip()))
        return max(options, key=lambda option: option[0])

    def _asked(self, metric: str, known: Metric | None) -> tuple[float, str]:
        if metric in self.allowed_by_metric:
            return self.allowed_by_metric[metric], "asked"
        times = known.allowance if known else 1.0
        return self.allowed * times, "asked" if times == 1.0 else f"asked x {times:g} for a tail"
