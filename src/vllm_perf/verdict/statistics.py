# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of comparing: plain arrays in, numbers out, nothing about engines."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, ndtr, ndtri, stdtr, stdtrit

from vllm_perf.metrics.percentiles import median

Floats = NDArray[np.float64]
TRIM = 0.1
BATCHES = 20
MIN_BATCH = 4
MIN_BATCHES = 4
RESAMPLES = 200
MIN_COMMON_PROMPTS = 8
EXACT_FLIPS = 12
RANDOM_FLIPS = 4096
# Below this two sides count as identical: a millionth is under any clock's truth.
TINY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A log ratio head / base over pairs: its standard error, and the degrees of freedom behind that.

    ``df`` infinite means the error was assumed, not estimated.
    """

    log_ratio: float
    error: float
    df: float
    pairs: int
    hodges_lehmann: float
    p_up: float | None
    p_down: float | None

    def bound(self, level: float) -> tuple[float, float]:
        """Return the two one-sided bounds, each missed with probability ``level``."""
        half = quantile_t(1.0 - level, self.df) * self.error
        return self.log_ratio - half, self.log_ratio + half

    def p_above(self, margin: float) -> float:
        """Return the one-sided p-value of "the log ratio is at most ``margin``"."""
        return tail_t((self.log_ratio - margin) / max(self.error, TINY), self.df)

    def p_below(self, margin: float) -> float:
        """Return the one-sided p-value of "the log ratio is at least ``margin``"."""
        return tail_t((margin - self.log_ratio) / max(self.error, TINY), self.df)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is known beforehand about one pair's standard deviation; ``df`` infinite: assumed as it stands."""

    sigma: float
    df: float


def quantile_t(probability: float, df: float) -> float:
    """Return Student's quantile; with infinite ``df`` the normal one."""
    return float(ndtri(probability) if math.isinf(df) else stdtrit(df, probability))


def tail_t(value: float, df: float) -> float:
    """Return the probability of exceeding ``value``."""
    return float(ndtr(-value) if math.isinf(df) else stdtr(df, -value))


def common_times(base: Mapping[str, float], head: Mapping[str, float]) -> tuple[Floats, Floats] | None:
    """Return both sides' times of the prompts that both answered, in the base's order.

    ``None`` where they share fewer than 8 prompts.
    """
    kept = [(base[prompt], head[prompt]) for prompt in base if prompt in head]
    kept = [pair for pair in kept if min(pair) > 0]
    if len(kept) < MIN_COMMON_PROMPTS:
        return None
    before, after = np.array(kept, dtype=np.float64).T
    return before, after


def prompt_log_ratios(base: Mapping[str, float], head: Mapping[str, float]) -> Floats | None:
    """Return ln(head / base) for each prompt that both sides answered; ``None`` as :func:`common_times`."""
    both = common_times(base, head)
    return None if both is None else np.log(both[1] / both[0])


def typical(log_ratios: Floats) -> float:
    """Return the mean of the log ratios with the outer tenth on each side left out."""
    cut = int(TRIM * log_ratios.size)
    return float(np.sort(log_ratios)[cut : log_ratios.size - cut].mean())


def batch_error(base: Floats, head: Floats, at_once: int = 1) -> float | None:
    """Return the standard error of :func:`typical` within one pair, from batches of successive prompts.

    Successive requests share the queue they waited in; batches of them, no smaller than the ``at_once`` that
    are always under way, are nearly independent. ``None`` for fewer than 4 batches.
    """
    count = min(BATCHES, base.size // max(MIN_BATCH, at_once))
    if count < MIN_BATCHES:
        return None
    means = [typical(batch) for batch in np.array_split(np.log(head / base), count)]
    return float(np.std(means, ddof=1)) / math.sqrt(count)


def resampled_error(base: Floats, head: Floats, quantile: float | None, at_once: int = 1) -> float | None:
    """Return the standard error of ln(head / base) of a percentile (or the mean) within one pair.

    Bootstrap over batches of successive prompts, as :func:`batch_error` makes them, both sides drawn
    together. ``None`` for fewer than 4.
    """
    count = base.size // max(MIN_BATCH, at_once)
    if count < MIN_BATCHES:
        return None
    batches = np.repeat(np.arange(count), [part.size for part in np.array_split(base, count)])
    draws = np.random.default_rng(base.size).integers(0, count, size=(RESAMPLES, count))
    # How often each batch, and so each prompt, is in each resample: no resample is ever written out.
    often = np.zeros((RESAMPLES, count), dtype=np.int64)
    np.add.at(often, (np.arange(RESAMPLES)[:, None], draws), 1)
    before, after = (_resampled(side, often[:, batches], quantile) for side in (base, head))
    return float(np.std(np.log(after / before), ddof=1))


def _resampled(values: Floats, often: NDArray[np.int64], quantile: float | None) -> Floats:
    """Return a percentile (as :func:`percentile` defines it) or the mean of each resample.

    ``often`` has a row a resample: how often each value is in it.
    """
    sizes = often.sum(axis=1)
    if quantile is None:
        means: Floats = often @ values / sizes
        return means
    order = np.argsort(values)
    ordered, counted = values[order], np.cumsum(often[:, order], axis=1)
    position = (sizes - 1) * quantile
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, sizes - 1)
    low, high = (ordered[np.argmax(counted > place[:, None], axis=1)] for place in (below, above))
    percentiles: Floats = low + (position - below) * (high - low)
    return percentiles


def hodges_lehmann(values: Sequence[float] | Floats) -> float:
    """Return the median of all pairwise means (each value with itself included)."""
    data = np.asarray(values, dtype=np.float64)
    rows, columns = np.triu_indices(data.size)
    return median((data[rows] + data[columns]) / 2)


def sign_flip_p(values: Sequence[float] | Floats) -> tuple[float, float]:
    """Return the permutation p-values of "not above 0" and "not below 0" of the mean.

    Under no change a pair's two sides are exchangeable, so each sign is a coin. All patterns up to 12
    pairs, 4,096 seeded ones beyond.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.size <= EXACT_FLIPS:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=data.size)))
    else:
        signs = np.random.default_rng(data.size).choice((1.0, -1.0), size=(RANDOM_FLIPS, data.size))
        signs[0] = 1.0
    means = signs @ data / data.size
    seen = float(data.mean())
    slack = 1e-12 * max(abs(seen), 1.0)
    return float(np.mean(means >= seen - slack)), float(np.mean(means <= seen + slack))


def pooled_sigma(values: Floats, prior: Prior | None) -> tuple[float, float]:
    """Return one pair's standard deviation and its degrees of freedom, from the pairs and the prior.

    Formula: variance = (d0 s0^2 + d s^2) / (d0 + d) with d0 + d degrees of freedom (the moderated t of
    Smyth 2004). Where the pairs waver more than the prior allows (F test, 5 %), the prior does not
    describe today and the pairs stand alone. An assumed prior (infinite ``df``) counts as a lower bound.
    """
    own_df = float(values.size - 1)
    own = float(np.var(values, ddof=1)) if own_df else 0.0
    if prior is None:
        if own_df < 1:
            raise ValueError("one pair says nothing about its own noise: a prior is needed")
        return math.sqrt(own), own_df
    known = prior.sigma**2
    if math.isinf(prior.df):
        return math.sqrt(max(known, own)), math.inf
    if own_df and own > known * float(fdtri(own_df, prior.df, 0.95)):
        return math.sqrt(own), own_df
    total = prior.df + own_df
    return math.sqrt((prior.df * known + own_df * own) / total), total


def estimate(log_ratios: Sequence[float], prior: Prior | None) -> Estimate:
    """Return the estimate over pairs, one log ratio each.

    Raises:
        ValueError: there is no pair, or a single one and no prior.
    """
    data = np.asarray(log_ratios, dtype=np.float64)
    if not data.size:
        raise ValueError("no pair to estimate from")
    sigma, df = pooled_sigma(data, prior)
    p_up, p_down = sign_flip_p(data) if data.size >= 2 else (None, None)
    return Estimate(
        log_ratio=float(data.mean()),
        error=sigma / math.sqrt(data.size),
        df=df,
        pairs=int(data.size),
        hodges_lehmann=hodges_lehmann(data),
        p_up=p_up,
        p_down=p_down,
    )


def holm_levels(p_values: Mapping[str, float], alpha: float) -> dict[str, tuple[float, bool]]:
    """Return for each name the level it is tested at and whether it is rejected (Holm 1979).

    The smallest of m p-values is tested at alpha / m, the next at alpha / (m - 1) and so on; the first
    that fails stops the rest, which get its level.
    """
    result: dict[str, tuple[float, bool]] = {}
    left, stopped, level = len(p_values), False, alpha
    for name, p_value in sorted(p_values.items(), key=lambda item: item[1]):
        if not stopped:
            level = alpha / left
            stopped = p_value > level
        result[name] = (level, not stopped)
        left -= 1
    return result
