# SPDX-License-Identifier: Apache-2.0
"""Work done a second, over the whole run and inside its steady-state window."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics.measurement import MetricUnavailable

NS_PER_S = 1e9
STEADY_SHARE = 0.8
# A closed loop has a request less for the moment between one answer and the next question. A dip this
# short is the client's turn-round, not the end of the steady state.
TURN_ROUND_NS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span of time, ``perf_counter_ns``."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Return its length."""
        return (self.end_ns - self.start_ns) / NS_PER_S


def run_window(run: Run) -> Window:
    """Return the span of the run: first send to last end.

    Raises:
        MetricUnavailable: the run has no length.
    """
    if run.ended_ns <= run.started_ns:
        raise MetricUnavailable("the run has no duration")
    return Window(start_ns=run.started_ns, end_ns=run.ended_ns)


def require_counted(samples: Iterable[RequestSample]) -> None:
    """Refuse tokens that nobody counted.

    Raises:
        MetricUnavailable: an answer carries no ``usage``, so that its tokens are an estimate or unknown.
    """
    guessed = sum(sample.ok and sample.token_source != "usage" for sample in samples)
    if guessed:
        raise MetricUnavailable(
            f"{guessed} answers came without usage, so their tokens are only estimated;"
            " ask the server for usage (stream_options.include_usage)"
        )


def request_throughput(run: Run) -> float:
    """Return requests/s. Formula: completed requests / run duration."""
    return _completed(run) / run_window(run).seconds


def output_throughput(run: Run) -> float:
    """Return output tokens/s. Formula: output tokens of completed requests / run duration.

    Raises:
        MetricUnavailable: no request completed, or tokens are estimated.
    """
    require_counted(run.samples)
    _completed(run)
    return sum(sample.output_tokens or 0 for sample in run.samples if sample.ok) / run_window(run).seconds


def total_throughput(run: Run) -> float:
    """Return tokens/s. Formula: (prompt + output tokens) of completed requests / run duration.

    Raises:
        MetricUnavailable: no request completed, tokens are estimated, or prompt tokens are unknown.
    """
    require_counted(run.samples)
    done = [sample for sample in run.samples if sample.ok]
    if any(sample.prompt_tokens is None for sample in done):
        raise MetricUnavailable("the server did not report prompt tokens")
    prompt = sum(sample.prompt_tokens or 0 for sample in done)
    return output_throughput(run) + prompt / run_window(run).seconds


def _completed(run: Run) -> int:
    done = sum(sample.ok for sample in run.samples)
    if not done:
        raise MetricUnavailable("no request completed")
    return done


def peak_concurrency(samples: Iterable[RequestSample]) -> int:
    """Return the largest number of requests that were in flight at once."""
    levels, _ = _levels(samples)
    return int(levels.max()) if levels.size else 0


def steady_window(run: Run) -> Window:
    """Return the longest span with concurrency >= 0.8 x peak (dips under 10 ms bridged).

    Raises:
        MetricUnavailable: no request was in flight for any time.
    """
    levels, times = _levels(run.samples)
    if not levels.size:
        raise MetricUnavailable("no request was in flight")
    busy = levels >= STEADY_SHARE * levels.max()
    spans: list[Window] = []
    for start, end, enough in zip(times[:-1].tolist(), times[1:].tolist(), busy[:-1].tolist(), strict=True):
        if not enough:
            continue
        if spans and start - spans[-1].end_ns <= TURN_ROUND_NS:
            start = spans.pop().start_ns
        spans.append(Window(start_ns=start, end_ns=end))
    if not spans:
        raise MetricUnavailable("no request was in flight for any time")
    return max(spans, key=lambda span: span.end_ns - span.start_ns)


def _levels(samples: Iterable[RequestSample]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number in flight after each change, and the times of the changes."""
    spans = [
        (sample.sent_ns, end)
        for sample in samples
        if sample.sent_ns is not None and (end := sample.last_token_ns or sample.end_ns) is not None
    ]
    if not spans:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    sent, ended = np.array(spans, dtype=np.int64).T
    times = np.concatenate([sent, ended])
    steps = np.concatenate([np.ones(len(spans), np.int64), -np.ones(len(spans), np.int64)])
    # At equal times an end comes before a start: one answer's end is not concurrency.
    order = np.lexsort((steps, times))
    return np.cumsum(steps[order]), times[order]


def output_tokens_within(samples: Iterable[RequestSample], window: Window) -> float:
    """Return how many output tokens of completed requests arrived within ``window``."""
    edges = np.array([window.start_ns, window.end_ns], dtype=np.int64)
    return float(output_tokens_between(samples, edges)[0])


def output_tokens_between(samples: Iterable[RequestSample], edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how many output tokens of completed requests arrived between successive ``edges``.

    The first chunk carries ``first_chunk_tokens``; the rest are spread evenly over the later chunks.
    """
    total = np.zeros(edges.size - 1)
    for sample in samples:
        chunks = np.frombuffer(sample.chunk_ns, dtype=np.int64)
        if not sample.ok or not sample.output_tokens or not chunks.size:
            continue
        first = sample.first_chunk_tokens if chunks.size > 1 else sample.output_tokens
        rest = (sample.output_tokens - first) / max(chunks.size - 1, 1)
        arrived = np.searchsorted(chunks, edges, side="right")
        tokens_by = np.where(arrived > 0, first + rest * (arrived - 1), 0.0)
        total += np.diff(tokens_by)
    return total


def steady_output_throughput(run: Run) -> float:
    """Return output tokens/s inside the steady-state window.

    Raises:
        MetricUnavailable: there is no such window, or tokens are estimated.
    """
    require_counted(run.samples)
    window = steady_window(run)
    return output_tokens_within(run.samples, window) / window.seconds


def steady_request_throughput(run: Run) -> float:
    """Return requests/s that completed inside the steady-state window.

    Raises:
        MetricUnavailable: there is no such window.
    """
    window = steady_window(run)
    done = sum(
        sample.ok
        and sample.last_token_ns is not None
        and window.start_ns < sample.last_token_ns <= window.end_ns
        for sample in run.samples
    )
    return done / window.seconds


def steady_total_throughput(run: Run) -> float:
    """Return tokens/s inside the steady-state window; a prompt counts where its first token arrived.

    Raises:
        MetricUnavailable: there is no such window, tokens are estimated or prompt tokens unknown.
    """
    output = steady_output_throughput(run)
    window = steady_window(run)
    prompt = 0
    for sample in run.samples:
        if not sample.ok or sample.first_token_ns is None:
            continue
        if sample.prompt_tokens is None:
            raise MetricUnavailable("the server did not report prompt tokens")
        if window.start_ns < sample.first_token_ns <= window.end_ns:
            prompt += sample.prompt_tokens
    return output + prompt / window.seconds
