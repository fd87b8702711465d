# SPDX-License-Identifier: Apache-2.0
"""What a load leaves behind: one sample a request, and the run that holds them.

All ``*_ns`` are ``time.perf_counter_ns`` of this host; ``None`` means "never happened", never 0.
"""

from array import array
from dataclasses import dataclass, field
from typing import Literal

from vllm_perf.spec.category import Category
from vllm_perf.spec.client import DEFAULT_CLIENT

TokenSource = Literal["usage", "estimated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """The server's own times for one request (vLLM ``--enable-per-request-metrics``)."""

    queue_ns: int | None = None
    first_token_ns: int | None = None
    inference_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSample:
    """One request, as it really went.

    ``prompt_id`` pairs the same prompt across runs. ``sent_ns``: bytes handed to an already open
    connection. ``chunk_ns``: arrival of every chunk that carried generated payload, in order (int64).
    ``first_chunk_tokens``: tokens in the first of them (1 unless known better). ``detail`` is redacted;
    ``remedy`` is set where an HTTP answer named its own cause; ``retry_after_s`` is how long a refusal (429)
    asked to wait.
    """

    id: str
    prompt_id: str
    scheduled_ns: int
    sent_ns: int | None = None
    connect_ns: int | None = None
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    end_ns: int | None = None
    chunk_ns: "array[int]" = field(default_factory=lambda: array("q"))
    first_chunk_tokens: int = 1
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    token_source: TokenSource | None = None
    finish_reason: str | None = None
    outcome: Category = Category.OK
    status: int | None = None
    detail: str | None = None
    remedy: str | None = None
    warnings: tuple[str, ...] = ()
    server: ServerTimes | None = None
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Tell whether the request succeeded as docs/metrics.md defines it."""
        return self.outcome is Category.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One repetition of a workload against one target.

    ``counters_before``/``counters_after`` are scrapes of ``/metrics`` (series name to value, labels
    summed), ``None`` where there is none. ``started_ns``..``ended_ns`` spans first send to last end.
    ``max_lag_ns``/``median_lag_ns``: how late the generator sent against its own schedule.
    ``scheduling``: the client's claim on a CPU; ``cpu_wait_ns``: how long it was ready and had none, in all,
    ``long_cpu_wait_ns`` in waits long enough to join chunks, ``worst_cpu_wait_ns`` at most at once.
    ``client`` is what sent it: two clients see two different times, so that their runs are never compared.
    """

    workload: str
    target: str
    samples: tuple[RequestSample, ...]
    started_ns: int
    ended_ns: int
    peak_in_flight: int
    asked_concurrency: int | None = None
    asked_rate_per_s: float | None = None
    pinned_output_tokens: int | None = None
    expected_prompt_tokens: dict[str, int] = field(default_factory=dict)
    median_lag_ns: int | None = None
    max_lag_ns: int | None = None
    clock: str = "perf_counter_ns"
    scheduling: str = "normal"
    cpu_wait_ns: int = 0
    long_cpu_wait_ns: int = 0
    worst_cpu_wait_ns: int = 0
    client: str = DEFAULT_CLIENT
    counters_before: dict[str, float] | None = None
    counters_after: dict[str, float] | None = None
    caches_reset: bool | None = None
    warmup_samples: tuple[RequestSample, ...] = ()
    wall_started_s: float = 0.0
    prompt_set_hash: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def sent(self) -> int:
        """Return how many requests were tried."""
        return len(self.samples)

    @property
    def failed(self) -> int:
        """Return how many requests did not succeed."""
        return sum(not sample.ok for sample in self.samples)
