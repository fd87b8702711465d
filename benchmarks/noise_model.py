# SPDX-License-Identifier: Apache-2.0
"""Boots of an imaginary engine with realistic noise, as the sides that the real verdict code compares.

ln(time of a request) = ln(typical) + prompt + residual + boot + drift (+ slowdown on head)

prompt    the same for this prompt in every boot: its length, its place in the arrival pattern
residual  this request in this boot: scheduling, neighbours; AR(1) along the run
boot      one draw a boot for all metrics and one for each: memory layout, clocks, graph capture
drift     the machine warming up or filling: linear in the boot's index, and a random walk
stall     now and then a whole boot that the host slows down, by an exponentially distributed amount
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from vllm_perf.verdict.side import Side, Work

Floats = NDArray[np.float64]
TTFT_MS, TPOT_MS, OUTPUT_TOKENS, CONCURRENCY = 200.0, 25.0, 64, 8
GATING = ("ttft_p50", "ttft_p95", "tpot_p50", "output_throughput")
# Which log times a slowdown touches: everything, only the first token, only the later ones.
SHAPES: Mapping[str, tuple[float, float]] = {"everything": (1.0, 1.0), "ttft": (1.0, 0.0), "tpot": (0.0, 1.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviations of the logarithms, and how a boot is made up."""

    boot_common: float = 0.012
    boot_own: float = 0.009
    ttft_prompt: float = 0.28
    ttft_residual: float = 0.14
    tpot_prompt: float = 0.05
    tpot_residual: float = 0.05
    autocorrelation: float = 0.5
    drift_per_boot: float = 0.0
    walk_per_boot: float = 0.0
    stalled_boots: float = 0.0
    stall: float = 0.06
    requests: int = 200


class Machine:
    """One machine on one day: the same prompts for every boot, drift from boot to boot."""

    def __init__(self, noise: Noise, rng: np.random.Generator) -> None:
        """Draw the prompts."""
        self._noise, self._rng = noise, rng
        self._ttft_prompt = rng.normal(0, noise.ttft_prompt, noise.requests)
        self._tpot_prompt = rng.normal(0, noise.tpot_prompt, noise.requests)
        self._drift = 0.0

    def boot(self, slowdown: float = 0.0, shape: str = "everything") -> Side:
        """Boot once, run once; ``slowdown`` is a share (0.05: 5 % slower)."""
        noise, rng = self._noise, self._rng
        self._drift += noise.drift_per_boot + rng.normal(0, noise.walk_per_boot)
        common = self._drift + rng.normal(0, noise.boot_common)
        if noise.stalled_boots and rng.random() < noise.stalled_boots:
            common += rng.exponential(noise.stall)
        ttft_share, tpot_share = SHAPES[shape]
        own = rng.normal(0, noise.boot_own, 2)
        slower = np.log1p(slowdown)
        ttft = self._times(TTFT_MS, self._ttft_prompt, noise.ttft_residual)
        tpot = self._times(TPOT_MS, self._tpot_prompt, noise.tpot_residual)
        ttft *= np.exp(common + own[0] + slower * ttft_share)
        tpot *= np.exp(common + own[1] + slower * tpot_share)
        return side_of(ttft, tpot)

    def _times(self, typical: float, prompt: Floats, residual: float) -> Floats:
        return typical * np.exp(prompt + residual * _ar1(self._noise.autocorrelation, prompt.size, self._rng))


def side_of(ttft_ms: Floats, tpot_ms: Floats) -> Side:
    """Make a side of one boot's request times; the throughput is what such requests give in a closed loop."""
    e2el_s = (ttft_ms + tpot_ms * (OUTPUT_TOKENS - 1)) / 1000
    names = [f"prompt-{index}" for index in range(ttft_ms.size)]
    return Side(
        values={
            "ttft_p50": float(np.percentile(ttft_ms, 50)),
            "ttft_p95": float(np.percentile(ttft_ms, 95)),
            "tpot_p50": float(np.percentile(tpot_ms, 50)),
            "output_throughput": CONCURRENCY * OUTPUT_TOKENS * ttft_ms.size / float(e2el_s.sum()),
        },
        by_prompt={
            "ttft": dict(zip(names, ttft_ms.tolist(), strict=True)),
            "tpot": dict(zip(names, tpot_ms.tolist(), strict=True)),
        },
        work=Work(sent=ttft_ms.size, failed=0, output_tokens=OUTPUT_TOKENS, prompt_tokens=512),
    )


def _ar1(correlation: float, count: int, rng: np.random.Generator) -> Floats:
    """Return a unit-variance AR(1) series."""
    shocks = rng.normal(0, np.sqrt(1 - correlation**2), count)
    shocks[0] = rng.normal()
    series: Floats = lfilter([1.0], [1.0, -correlation], shocks)
    return series
