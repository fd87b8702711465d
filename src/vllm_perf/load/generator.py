# SPDX-License-Identifier: Apache-2.0
"""Run one load in this process and return what happened, whatever happened."""

import math
import secrets
import select
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import itemgetter

from vllm_perf.clock import KernelClock
from vllm_perf.load.arrivals import schedule
from vllm_perf.load.cpu import CpuWaits, claimed_cpu
from vllm_perf.load.failures import answer_classifier, malformed_key, way_failure
from vllm_perf.load.head import PATHS, RequestWriter
from vllm_perf.load.loop import Load, LoadLoop, Progress
from vllm_perf.load.opening import Route, plan_route
from vllm_perf.load.plan import LoadPlan
from vllm_perf.load.pool import Pool
from vllm_perf.load.process import open_files, quiet_gc
from vllm_perf.load.reading import Backlog, Context
from vllm_perf.load.runs import Conduct, busy_warnings, nothing_sent, run_of
from vllm_perf.load.sample import Run
from vllm_perf.load.stock import Stock
from vllm_perf.load.supply import make_supply

SECOND_NS = 1_000_000_000
OPEN_LOOP_CONNECTIONS = 256
SETTLE_S_A_CONNECTION = 0.0002


def run_load(plan: LoadPlan, *, on_progress: Progress | None = None, start_ns: int | None = None) -> Run:
    """Send the plan's requests, wait for all their ends and return one sample for each that was tried.

    Nothing is ever retried, and whatever fails becomes a sample with its category. Ctrl-C closes all sockets
    and goes on as ``KeyboardInterrupt``. ``start_ns`` (``perf_counter_ns``) lets shards start together.

    Raises:
        SpecError: the target's URL is malformed, or an open loop has no rate.
    """
    plan = _with_offsets(plan)
    refusal = malformed_key(plan.target)
    if refusal is None:
        try:
            route = plan_route(plan.target, stamps=plan.kernel_stamps)
        except OSError as error:
            refusal = way_failure(error, plan.target, _url(plan))
    if refusal is not None:
        return nothing_sent(plan, refusal, time.time())
    if plan.client == "openai":
        # Imported here: the SDK takes half a second that nobody else should wait for.
        from vllm_perf.load.sdk_load import run_sdk_load

        return run_sdk_load(plan, on_progress=on_progress, start_ns=start_ns)
    with quiet_gc(), open_files(len(plan.requests)), select.epoll() as epoll:
        setup = _Setup(plan, route, epoll)
        try:
            return _run(plan, setup, on_progress, start_ns)
        finally:
            setup.close()


class _Setup:
    """All that one load needs, from its sockets to its readers; ``close`` gives back every socket."""

    def __init__(self, plan: LoadPlan, route: Route, epoll: select.epoll) -> None:
        url = _url(plan)
        self.timeout_ns = round(plan.request_timeout_s * SECOND_NS)
        self.clock = KernelClock(wanted=plan.kernel_stamps)
        self.epoll = epoll
        self.pool = Pool(route, epoll, self.timeout_ns, partial(way_failure, target=plan.target, url=url))
        self.stock = Stock(
            plan.requests, RequestWriter(route, plan.target, plan.endpoint), secrets.token_hex(4)
        )
        self.backlog = Backlog(
            Context(
                clock=self.clock,
                classify=answer_classifier(plan.target, url),
                target=plan.target,
                url=url,
                pinned_output_tokens=plan.pinned_output_tokens,
                request_timeout_s=plan.request_timeout_s,
            )
        )

    def close(self) -> None:
        self.pool.close()
        self.clock.check()
        self.clock.close()


def _run(plan: LoadPlan, setup: _Setup, on_progress: Progress | None, start_ns: int | None) -> Run:
    wall_started_s = time.time()
    setup.stock.fill()
    setup.pool.open(_connections(plan))
    begin_ns = _begin(start_ns, setup.pool.idle)
    load = Load(
        supply=make_supply(plan.requests, plan.arrival, begin_ns),
        stock=setup.stock,
        spare=_spare(plan),
        request_timeout_ns=setup.timeout_ns,
        stop_ns=None if plan.duration_s is None else begin_ns + round(plan.duration_s * SECOND_NS),
        on_progress=on_progress,
        stop_when_refused=plan.stop_when_refused,
    )
    with closing(CpuWaits()) as waits, claimed_cpu() as scheduling:
        loop = LoadLoop(setup.epoll, setup.pool, setup.backlog, load, waits)
        loop.run()
    samples = [sample for _, sample in sorted(setup.backlog.samples, key=itemgetter(0))]
    return run_of(plan, samples, _conduct(loop, setup.clock, begin_ns, wall_started_s, (scheduling, waits)))


def _conduct(
    loop: LoadLoop, clock: KernelClock, begin_ns: int, wall_started_s: float, cpu: tuple[str, CpuWaits]
) -> Conduct:
    scheduling, waits = cpu
    busy = 1 - loop.idle_ns / loop.wall_ns if loop.wall_ns else 0.0
    warnings = (clock.warning,) if clock.warning else ()
    return Conduct(
        begin_ns=begin_ns,
        wall_started_s=wall_started_s,
        peak_in_flight=loop.peak_in_flight,
        clock=clock.name,
        scheduling=scheduling,
        cpu_wait_ns=waits.total_ns,
        long_cpu_wait_ns=waits.long_ns,
        worst_cpu_wait_ns=waits.worst_ns,
        warnings=warnings + busy_warnings(busy, loop.wall_ns),
    )


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
    settled_ns = time.perf_counter_ns() + round(connections * SETTLE_S_A_CONNECTION * SECOND_NS)
    begin_ns = settled_ns if start_ns is None else start_ns
    while (left_ns := begin_ns - time.perf_counter_ns()) > 0:
        time.sleep(left_ns / SECOND_NS)
    return begin_ns
