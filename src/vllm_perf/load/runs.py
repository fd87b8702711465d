# SPDX-License-Identifier: Apache-2.0
"""Put a run together from its samples."""

import importlib.metadata
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from vllm_perf.load.arrivals import asked_rate
from vllm_perf.load.failures import Failure
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.client import Client

SATURATED_SHARE = 0.9
SATURATED_WALL_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a load went, apart from its samples; ``begin_ns`` is its start, even if nothing was sent."""

    begin_ns: int
    wall_started_s: float
    peak_in_flight: int
    clock: str = "perf_counter_ns"
    scheduling: str = "normal"
    cpu_wait_ns: int = 0
    long_cpu_wait_ns: int = 0
    worst_cpu_wait_ns: int = 0
    warnings: tuple[str, ...] = ()


def run_of(plan: LoadPlan, samples: Sequence[RequestSample], conduct: Conduct) -> Run:
    """Return the run; its lags are ``sent - scheduled`` of every request that was sent."""
    sent = [sample for sample in samples if sample.sent_ns is not None]
    lags = [sample.sent_ns - sample.scheduled_ns for sample in sent if sample.sent_ns is not None]
    ends = [sample.end_ns for sample in samples if sample.end_ns is not None]
    offsets = tuple(request.offset_ns for request in plan.requests if request.offset_ns is not None)
    return Run(
        workload=plan.workload,
        target=plan.target.name or plan.target.base_url,
        samples=tuple(samples),
        started_ns=min((one.sent_ns for one in sent if one.sent_ns is not None), default=conduct.begin_ns),
        ended_ns=max(ends, default=conduct.begin_ns),
        peak_in_flight=conduct.peak_in_flight,
        asked_concurrency=None if offsets else plan.arrival.concurrency,
        asked_rate_per_s=asked_rate(offsets),
        pinned_output_tokens=plan.pinned_output_tokens,
        expected_prompt_tokens=_expected(plan.requests),
        median_lag_ns=statistics.median_low(lags) if lags else None,
        max_lag_ns=max(lags, default=None),
        clock=conduct.clock,
        scheduling=conduct.scheduling,
        cpu_wait_ns=conduct.cpu_wait_ns,
        long_cpu_wait_ns=conduct.long_cpu_wait_ns,
        worst_cpu_wait_ns=conduct.worst_cpu_wait_ns,
        client=client_name(plan.client),
        wall_started_s=conduct.wall_started_s,
        prompt_set_hash=plan.prompt_set_hash,
        warnings=conduct.warnings,
    )


def client_name(client: Client) -> str:
    """Return the client as a record names it: another version of the SDK is another client."""
    return client if client == "socket" else f"{client} {importlib.metadata.version(client)}"


def busy_warnings(busy: float, wall_ns: int) -> tuple[str, ...]:
    """Return what is to be said of a client that was busy that share of the load's time."""
    if busy <= SATURATED_SHARE or wall_ns <= SATURATED_WALL_NS:
        return ()
    return (f"the client was busy {busy:.0%} of the time: spread the load over more processes",)


def nothing_sent(plan: LoadPlan, failure: Failure, wall_started_s: float) -> Run:
    """Return the run in which every request failed before it could be sent."""
    now_ns = time.perf_counter_ns()
    samples = [
        RequestSample(
            id=f"unsent-{place:05d}",
            prompt_id=request.prompt_id,
            scheduled_ns=now_ns,
            end_ns=now_ns,
            outcome=failure.category,
            detail=failure.detail,
            remedy=failure.remedy,
        )
        for place, request in enumerate(plan.requests)
    ]
    return run_of(plan, samples, Conduct(begin_ns=now_ns, wall_started_s=wall_started_s, peak_in_flight=0))


def peak_in_flight(samples: Iterable[RequestSample]) -> int:
    """Return the most requests that were between sent and end at once; an end comes before a start."""
    events: list[tuple[int, int]] = []
    for sample in samples:
        if sample.sent_ns is not None and sample.end_ns is not None:
            events += [(sample.sent_ns, 1), (sample.end_ns, -1)]
    return max(accumulate(step for _, step in sorted(events)), default=0)


def _expected(requests: Sequence[PlannedRequest]) -> dict[str, int]:
    return {one.prompt_id: one.prompt_tokens for one in requests if one.prompt_tokens is not None}
