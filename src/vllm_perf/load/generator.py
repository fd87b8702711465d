# SPDX-License-Identifier: Apache-2.0
"""Run one load in this process and return what happened, whatever happened."""

import contextlib
import gc
import math
import resource
import secrets
import select
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from vllm_perf.load.arrivals import asked_rate, schedule
from vllm_perf.load.clock import KernelClock
from vllm_perf.load.failures import Failure, answer_classifier, malformed_key, way_failure
from vllm_perf.load.head import PATHS, RequestWriter
from vllm_perf.load.loop import Load, LoadLoop, Progress
from vllm_perf.load.opening import Route, plan_route
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.pool import Pool
from vllm_perf.load.reading import Backlog, Context
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.load.stock import Stock
from vllm_perf.load.supply import make_supply

SECOND_NS = 1_000_000_000
SATURATED_SHARE = 0.9
OPEN_LOOP_CONNECTIONS = 256
SETTLE_S_A_CONNECTION = 0.0002


def run_load(plan: LoadPlan, *, on_progress: Progress | None = None, start_ns: int | None = None) -> Run:
    """Send the plan's requests, wait for all their ends and return one sample for each that was tried.

    Nothing is ever retried, and whatever fails becomes a sample with its category. Ctrl-C closes all sockets
    and goes on as ``KeyboardInterrupt``. ``start_ns`` (``perf_counter_ns``) lets shards start together.

    Raises:
        SpecError: the target's URL is malformed, or an open loop has no rate.
    """
    wall_started_s = time.time()
    plan = _with_offsets(plan)
    refusal = malformed_key(plan.target)
    if refusal is None:
        try:
            route = plan_route(plan.target, stamps=True)
        except OSError as error:
            refusal = way_failure(error, plan.target, _url(plan))
    if refusal is not None:
        return _nothing_sent(plan, refusal, wall_started_s)
    with _quiet_gc(), _open_files(len(plan.requests)), select.epoll() as epoll:
        return _run(plan, route, epoll, on_progress, start_ns, wall_started_s)


def _run(
    plan: LoadPlan,
    route: Route,
    epoll: select.epoll,
    on_progress: Progress | None,
    start_ns: int | None,
    wall_started_s: float,
) -> Run:
    clock = KernelClock()
    timeout_ns = round(plan.request_timeout_s * SECOND_NS)
    url = _url(plan)
    pool = Pool(route, epoll, timeout_ns, partial(way_failure, target=plan.target, url=url))
    context = Context(
        clock=clock,
        classify=answer_classifier(plan.target, url),
        target=plan.target,
        url=url,
        pinned_output_tokens=plan.pinned_output_tokens,
        request_timeout_s=plan.request_timeout_s,
    )
    stock = Stock(plan.requests, RequestWriter(route, plan.target, plan.endpoint), secrets.token_hex(4))
    backlog = Backlog(context)
    try:
        stock.fill()
        pool.open(_connections(plan))
        begin_ns = _begin(start_ns, pool.idle)
        load = Load(
            supply=make_supply(plan.requests, plan.arrival, begin_ns),
            stock=stock,
            spare=_spare(plan),
            request_timeout_ns=timeout_ns,
            stop_ns=None if plan.duration_s is None else begin_ns + round(plan.duration_s * SECOND_NS),
            on_progress=on_progress,
        )
        loop = LoadLoop(epoll, pool, backlog, load)
        loop.run()
    finally:
        pool.close()
        clock.check()
        clock.close()
    return _result(plan, loop, backlog, clock, begin_ns, wall_started_s)


def _result(
    plan: LoadPlan, loop: LoadLoop, backlog: Backlog, clock: KernelClock, begin_ns: int, wall_started_s: float
) -> Run:
    samples = tuple(sample for _, sample in sorted(backlog.samples, key=itemgetter(0)))
    busy = 1 - loop.idle_ns / loop.wall_ns if loop.wall_ns else 0.0
    warnings = [clock.warning] if clock.warning else []
    if busy > SATURATED_SHARE and len(samples) > 1:
        warnings.append(
            f"the client was busy {busy:.0%} of the time: more processes are needed (--processes)"
        )
    return run_of(plan, samples, begin_ns, loop.peak_in_flight, wall_started_s, tuple(warnings), clock.name)


def run_of(
    plan: LoadPlan,
    samples: Sequence[RequestSample],
    begin_ns: int,
    peak_in_flight: int,
    wall_started_s: float,
    warnings: tuple[str, ...] = (),
    clock: str = "perf_counter_ns",
) -> Run:
    """Put a run together from its samples."""
    lags = [sample.sent_ns - sample.scheduled_ns for sample in samples if sample.sent_ns is not None]
    sent = [sample.sent_ns for sample in samples if sample.sent_ns is not None]
    ends = [sample.end_ns for sample in samples if sample.end_ns is not None]
    offsets = tuple(request.offset_ns for request in plan.requests if request.offset_ns is not None)
    return Run(
        workload=plan.workload,
        target=plan.target.name or plan.target.base_url,
        samples=tuple(samples),
        started_ns=min(sent, default=begin_ns),
        ended_ns=max(ends, default=begin_ns),
        peak_in_flight=peak_in_flight,
        asked_concurrency=None if offsets else plan.arrival.concurrency,
        asked_rate_per_s=asked_rate(offsets),
        pinned_output_tokens=plan.pinned_output_tokens,
        expected_prompt_tokens=_expected(plan.requests),
        median_lag_ns=statistics.median_low(lags) if lags else None,
        max_lag_ns=max(lags) if lags else None,
        clock=clock,
        wall_started_s=wall_started_s,
        prompt_set_hash=plan.prompt_set_hash,
        warnings=warnings,
    )


def _expected(requests: Sequence[PlannedRequest]) -> dict[str, int]:
    return {one.prompt_id: one.prompt_tokens for one in requests if one.prompt_tokens is not None}


def _nothing_sent(plan: LoadPlan, failure: Failure, wall_started_s: float) -> Run:
    now_ns = time.perf_counter_ns()
    samples = [
        RequestSample(
            id=f"unsent-{place:05d}",
            prompt_id=request.prompt_id,
            scheduled_ns=now_ns,
            end_ns=now_ns,
            outcome=failure[0],
            detail=failure[1],
        )
        for place, request in enumerate(plan.requests)
    ]
    return run_of(plan, samples, now_ns, 0, wall_started_s)


def _url(plan: LoadPlan) -> str:
    return plan.target.base_url.rstrip("/") + PATHS[plan.endpoint]


def _with_offsets(plan: LoadPlan) -> LoadPlan:
    """Give an open loop that was planned by hand its schedule."""
    if plan.arrival.kind == "closed" or any(one.offset_ns is not None for one in plan.requests):
        return plan
    offsets = schedule(plan.arrival, len(plan.requests), 0) or ()
    requests = tuple(
        replace(one, offset_ns=offset) for one, offset in zip(plan.requests, offsets, strict=True)
    )
    return replace(plan, requests=requests)


def _is_open(plan: LoadPlan) -> bool:
    return any(request.offset_ns is not None for request in plan.requests)


def _connections(plan: LoadPlan) -> int:
    """Return how many connections to open beforehand: all of a closed loop's, two seconds of an open one."""
    if not _is_open(plan):
        return min(plan.arrival.concurrency, len(plan.requests))
    soon = sum((request.offset_ns or 0) < 2 * SECOND_NS for request in plan.requests)
    return min(OPEN_LOOP_CONNECTIONS, max(8, soon), len(plan.requests))


def _spare(plan: LoadPlan) -> Callable[[int], int]:
    """Return how many idle connections to keep: an open loop may always need a few more."""
    return (lambda in_flight: max(4, math.ceil(in_flight / 4))) if _is_open(plan) else (lambda in_flight: 0)


def _begin(start_ns: int | None, connections: int) -> int:
    """Wait for the agreed start, or let the server take in its new connections; return the start."""
    if start_ns is None:
        start_ns = time.perf_counter_ns() + round(connections * SETTLE_S_A_CONNECTION * SECOND_NS)
    while (left_ns := start_ns - time.perf_counter_ns()) > 0:
        time.sleep(left_ns / SECOND_NS)
    return time.perf_counter_ns() if start_ns is None else max(start_ns, 0)


@contextlib.contextmanager
def _quiet_gc() -> Iterator[None]:
    """Keep the garbage collector out of the load: one full pass takes tens of milliseconds."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _open_files(wanted: int) -> Iterator[None]:
    """Allow as many open files as the hard limit does, where the load could need them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + 256 if hard == resource.RLIM_INFINITY else min(hard, wanted + 256)
    raised = soft != resource.RLIM_INFINITY and soft < most
    if raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        if raised:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
