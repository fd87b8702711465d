# SPDX-License-Identifier: Apache-2.0
"""Draws of the seeded noise that ``Noise`` describes."""

import math
import random

from vllm_perf.golden.profile import Noise


class NoiseSource:
    """Draw, in order of arrival, what each request's times are multiplied by."""

    def __init__(self, noise: Noise) -> None:
        """Seed from (``seed``, ``boot``); the boot's own factor is drawn at once."""
        self._noise = noise
        self.gaps_vary = noise.token_sigma > 0
        self._random = random.Random(f"{noise.seed}/{noise.boot}")
        self.boot_factor = math.exp(noise.boot_sigma * self._random.gauss(0.0, 1.0))
        self._z = self._random.gauss(0.0, 1.0)
        self._index = 0

    def request_factor(self) -> float:
        """Return the next request's factor."""
        noise = self._noise
        if self._index:
            fresh = math.sqrt(1.0 - noise.autocorrelation**2) * self._random.gauss(0.0, 1.0)
            self._z = noise.autocorrelation * self._z + fresh
        drift = 1.0 + noise.drift * self._index
        self._index += 1
        return self.boot_factor * math.exp(noise.request_sigma * self._z) * drift

    def gap_factor(self) -> float:
        """Return the next token gap's own factor."""
        return math.exp(self._noise.token_sigma * self._random.gauss(0.0, 1.0))
