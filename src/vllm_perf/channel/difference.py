# SPDX-License-Identifier: Apache-2.0
"""The difference between two channels, block by block, and which part of it is the network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A mean over pairs of blocks with its 95 % interval (``None``: fewer than two pairs)."""

    mean: float
    low: float | None
    high: float | None
    pairs: int


def paired(differences: Sequence[float]) -> Difference | None:
    """Return the mean of paired differences and its t interval; ``None`` where there is none.

    Formula: mean +/- t(0.975, n - 1) s / sqrt(n). Blocks are the replicates, not requests: requests of one
    block wait for the same things. None, too, where a pair is not finite: a failed request reached into the
    percentile, and leaving that block out would reward it.
    """
    data = np.asarray(differences, dtype=np.float64)
    if not data.size or not np.isfinite(data).all():
        return None
    mean = float(data.mean())
    if data.size < 2:
        return Difference(mean=mean, low=None, high=None, pairs=1)
    half = float(t.ppf((1 + CONFIDENCE) / 2, data.size - 1)) * float(data.std(ddof=1)) / math.sqrt(data.size)
    return Difference(mean=mean, low=mean - half, high=mean + half, pairs=int(data.size))


def minus(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float]:
    """Return ``ours - theirs`` for every pair in which both exist."""
    return [a - b for a, b in zip(ours, theirs, strict=False) if a is not None and b is not None]
