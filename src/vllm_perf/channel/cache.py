# SPDX-License-Identifier: Apache-2.0
"""Whether a channel caches prompts: send a few of them twice and look at the second time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.sample import RequestSample
from vllm_perf.metrics.latency import NS_PER_MS, ttft_ns
from vllm_perf.metrics.percentiles import median

PROMPTS = 3
# A repeated prompt counts as cached where each second time was this much shorter, in share and in ms.
FASTER_SHARE = 0.7
FASTER_MS = 5.0
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
        word = "not known" if self.caches is None else "yes" if self.caches else "no sign"
        return f"{word} ({times}{told})"


def doubled(prompts: Sequence[PlannedRequest]) -> tuple[PlannedRequest, ...]:
    """Return each prompt twice in a row; the second has an id of its own."""
    return tuple(
        copy for one in prompts for copy in (one, replace(one, prompt_id=one.prompt_id + AGAIN, after=None))
    )


def judge(samples: Sequence[RequestSample]) -> CacheProbe:
    """Compare first and second times of the same prompts."""
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
    faster = all(b <= FASTER_SHARE * a and a - b >= FASTER_MS for a, b in times)
    slow_enough = median([a for a, _ in times]) > FASTER_MS
    return CacheProbe(
        first_ms=tuple(a for a, _ in times),
        again_ms=tuple(b for _, b in times),
        cached_tokens=cached,
        prompt_tokens=sum(again.prompt_tokens or 0 for _, again in pairs) or None,
        caches=True if cached or faster else False if slow_enough else None,
    )
