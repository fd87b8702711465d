# SPDX-License-Identifier: Apache-2.0
"""Times of one request, in integer nanoseconds, each with its formula; ``None`` is "does not exist"."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from vllm_perf.load.sample import RequestSample

NS_PER_MS = 1e6
RequestTime = Callable[[RequestSample], float | None]


def _between(start_ns: int | None, end_ns: int | None) -> int | None:
    return None if start_ns is None or end_ns is None else end_ns - start_ns


def ttft_ns(sample: RequestSample) -> int | None:
    """Return the time to first token: first generated token - sent (connecting is not in it)."""
    return _between(sample.sent_ns, sample.first_token_ns)


def ttft_from_scheduled_ns(sample: RequestSample) -> int | None:
    """Return the time to first token as a user waits for it: first generated token - scheduled."""
    return _between(sample.scheduled_ns, sample.first_token_ns)


def ttfa_ns(sample: RequestSample) -> int | None:
    """Return the time to first answer token (content or tool call, after any reasoning) - sent."""
    return _between(sample.sent_ns, sample.first_answer_ns)


def e2el_ns(sample: RequestSample) -> int | None:
    """Return the end-to-end latency: last token - sent (not the usage chunk, not the stream's close)."""
    return _between(sample.sent_ns, sample.last_token_ns)


def e2el_from_scheduled_ns(sample: RequestSample) -> int | None:
    """Return the end-to-end latency from the time the load wanted the request sent."""
    return _between(sample.scheduled_ns, sample.last_token_ns)


def tpot_ns(sample: RequestSample) -> float | None:
    """Return the time per output token after the first chunk.

    Formula: (last token - first token) / (output tokens - tokens in the first chunk). ``None`` where the
    answer has no token beyond its first chunk.
    """
    span_ns = _between(sample.first_token_ns, sample.last_token_ns)
    if span_ns is None or sample.output_tokens is None:
        return None
    later_tokens = sample.output_tokens - sample.first_chunk_tokens
    return span_ns / later_tokens if later_tokens > 0 else None


def chunk_gaps_ns(sample: RequestSample) -> NDArray[np.int64]:
    """Return the gaps between successive chunks; n chunks have n - 1 gaps, and TTFT is none of them.

    A chunk of k tokens is one gap: these are times between chunks, not between tokens.
    """
    return np.diff(np.frombuffer(sample.chunk_ns, dtype=np.int64))


def request_times_ms(samples: Iterable[RequestSample], of: RequestTime) -> tuple[float, ...]:
    """Return one time a request in milliseconds: ``inf`` for a failed request, none where it has none.

    A request that failed counts as never having finished, so that a server cannot improve a percentile
    by failing its slow requests.
    """
    times = ((sample.ok, of(sample)) for sample in samples)
    return tuple(
        (time / NS_PER_MS if time is not None else float("inf")) if ok else float("inf")
        for ok, time in times
        if not ok or time is not None
    )


def itl_ms(samples: Iterable[RequestSample]) -> NDArray[np.float64]:
    """Return every chunk gap of the requests that succeeded, and one ``inf`` for each that failed."""
    kept = list(samples)
    gaps = [chunk_gaps_ns(sample) / NS_PER_MS for sample in kept if sample.ok]
    failed = sum(not sample.ok for sample in kept)
    return np.concatenate([*gaps, np.full(failed, np.inf)]) if gaps or failed else np.empty(0)
