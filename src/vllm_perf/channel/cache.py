# SPDX-License-Identifier: Apache-2.0
"""Whether a channel caches prompts: send a few of them twice and look at the second time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.sample import RequestSample
from vllm_perf.metrics.latency import NS_PER_MS, ttft_ns
from vllm_perf.metrics.percentiles import median

PROMPTS = 3
# Cached: each second time is shorter, their median at most this share of the first ones' and so many ms less.
FASTER_SHARE = 0.7
FASTER_MS = 5.0
# Not cached: the median of the second times is at least this share. Between the two nobody knows.
ALIKE_SHARE = 0.9
# Half of the probe is repeated, so that a cache that works hits well over this share.
LEAST_HIT_RATE = 0.1
AGAIN = "-again"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheProbe:
    """What repeating prompts showed; ``caches`` ``None``: could not be told.

    ``cached_tokens`` are those that ``usage`` reported at the second time (``None``: it reports none; a
    gateway may report 0 without knowing, so that 0 alone proves nothing).
    """

    first_ms: tuple[float, ...] = ()
    again_ms: tuple[float, ...] = ()
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    caches: bool | None = None

    def sentence(self) -> str:
        """Return what was seen, for a reader."""
        if not self.first_ms or not self.again_ms:
            return "not known (the probe got no answers)"
        times = f"TTFT {median(self.first_ms):.1f} ms at first, {median(self.again_ms):.1f} ms repeated"
        told = f"; usage says {self.cached_tokens} tokens cached" if self.cached_tokens else ""
        word = "not known" if self.caches is None else "yes" if self.caches else "no"
        return f"{word} ({times}{told})"


def doubled(prompts: Sequence[PlannedRequest]) -> tuple[PlannedRequest, ...]:
    """Return each prompt twice in a row; the second has an id of its own."""
    return tuple(
        copy for one in prompts for copy in (one, replace(one, prompt_id=one.prompt_id + AGAIN, after=None))
    )


def judge(samples: Sequence[RequestSample], hit_rate: float | None = None) -> CacheProbe:
    """Compare first and second times of the same prompts.

    ``hit_rate`` is what the server's own counters say of the probe: where there is one, it decides.
    """
    by_id = {sample.prompt_id: sample for sample in samples if sample.first_token_ns is not None}
    pairs = [(first, by_id[name + AGAIN]) for name, first in by_id.items() if name + AGAIN in by_id]
    times = [
        (a / NS_PER_MS, b / NS_PER_MS)
        for first, again in pairs
        if (a := ttft_ns(first)) is not None and (b := ttft_ns(again)) is not None
    ]
    if not times:
        return CacheProbe()
    reported = [again.cached_tokens for _, again in pairs if again.cached_tokens is not None]
    cached = sum(reported) if reported else None
    return CacheProbe(
        first_ms=tuple(a for a, _ in times),
        again_ms=tuple(b for _, b in times),
        cached_tokens=cached,
        prompt_tokens=sum(again.prompt_tokens or 0 for _, again in pairs) or None,
        caches=_decide(cached, hit_rate, times),
    )


def _decide(cached: int | None, hit_rate: float | None, times: Sequence[tuple[float, float]]) -> bool | None:
    if cached:
        return True
    return hit_rate >= LEAST_HIT_RATE if hit_rate is not None else _by_time(times)


def _by_time(times: Sequence[tuple[float, float]]) -> bool | None:
    first, again = median([a for a, _ in times]), median([b for _, b in times])
    if all(b < a for a, b in times) and again <= FASTER_SHARE * first and first - again >= FASTER_MS:
        return True
    return False if first > FASTER_MS and again >= ALIKE_SHARE * first else None
