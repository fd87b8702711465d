# SPDX-License-Identifier: Apache-2.0
"""Drive a whole load with the openai SDK: the same plan, schedule and samples, what an application would see.

This client adds tens of milliseconds where many requests start at once (docs/client.md). It is there to show
an application's times, not the server's, and no run of it is ever compared with one of the socket client.
"""

import asyncio
import secrets
import time

from vllm_perf.load.head import PATHS
from vllm_perf.load.loop import PROGRESS_NS, REFUSALS, Progress
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.process import open_files
from vllm_perf.load.runs import Conduct, busy_warnings, run_of
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.load.sdk_request import SdkSender, sdk_client
from vllm_perf.load.supply import Supply, make_supply

SECOND_NS = 1_000_000_000
# asyncio's timers are good to a millisecond; the last of it is waited for by going round the loop.
FINE_NS = 2_000_000


def run_sdk_load(plan: LoadPlan, *, on_progress: Progress | None = None, start_ns: int | None = None) -> Run:
    """Send the plan's requests by the openai SDK; everything else as in ``generator.run_load``."""
    with open_files(len(plan.requests)):
        return asyncio.run(_run(plan, on_progress, start_ns))


async def _run(plan: LoadPlan, on_progress: Progress | None, start_ns: int | None) -> Run:
    url = plan.target.base_url.rstrip("/") + PATHS[plan.endpoint]
    async with sdk_client(plan.target, len(plan.requests)) as client:
        wall_started_s, begin_ns = time.time(), start_ns or time.perf_counter_ns()
        load = _SdkLoad(plan, SdkSender(plan, client, url), begin_ns, on_progress)
        cpu_s, started_ns = time.process_time(), time.perf_counter_ns()
        await load.run()
        wall_ns = time.perf_counter_ns() - started_ns
        busy = (time.process_time() - cpu_s) * SECOND_NS / max(wall_ns, 1)
    conduct = Conduct(
        begin_ns=begin_ns,
        wall_started_s=wall_started_s,
        peak_in_flight=load.peak_in_flight,
        clock="perf_counter_ns, as the openai SDK hands chunks out",
        warnings=busy_warnings(busy, wall_ns),
    )
    return run_of(plan, [sample for _, sample in sorted(load.samples.items())], conduct)


class _SdkLoad:
    """Start what is due, one task a request."""

    def __init__(
        self, plan: LoadPlan, sender: SdkSender, begin_ns: int, on_progress: Progress | None
    ) -> None:
        self._supply: Supply = make_supply(plan.requests, plan.arrival, begin_ns)
        self._sender = sender
        self._stop_ns = None if plan.duration_s is None else begin_ns + round(plan.duration_s * SECOND_NS)
        self._stop_when_refused, self._refused = plan.stop_when_refused, False
        self._places = {id(request): place for place, request in enumerate(plan.requests)}
        self._prefix = secrets.token_hex(4)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._on_progress, self._next_progress_ns = on_progress, 0
        self.samples: dict[int, RequestSample] = {}
        self._in_flight = self.peak_in_flight = 0

    async def run(self) -> None:
        """Send every request and wait for every end."""
        while True:
            self._ended.clear()
            due_ns = self._start_due()
            if due_ns is None and not self._tasks:
                break
            await self._wait(due_ns)
        self._show(last=True)

    def _start_due(self) -> int | None:
        """Start what is due; return when the next is."""
        while (due_ns := self._next_due_ns()) is not None and due_ns <= time.perf_counter_ns():
            planned = self._supply.take()
            task = asyncio.create_task(self._send(planned, due_ns))
            self._tasks.add(task)
            task.add_done_callback(self._gone)
            self._in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self._in_flight)
        return due_ns

    def _next_due_ns(self) -> int | None:
        late = self._stop_ns is not None and time.perf_counter_ns() >= self._stop_ns
        return None if self._refused or late else self._supply.next_due_ns()

    async def _wait(self, due_ns: int | None) -> None:
        """Sleep until the next request is due or one has ended."""
        left_ns = None if due_ns is None else due_ns - time.perf_counter_ns() - FINE_NS
        if left_ns is not None and left_ns <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(None if left_ns is None else left_ns / SECOND_NS):
                await self._ended.wait()
        except TimeoutError:
            return

    async def _send(self, planned: PlannedRequest, scheduled_ns: int) -> None:
        place = self._places[id(planned)]
        sample = await self._sender.send(planned, f"{self._prefix}-{place:05d}", scheduled_ns)
        self.samples[place] = sample
        self._in_flight -= 1
        self._refused |= self._stop_when_refused and sample.status in REFUSALS
        self._supply.ended(planned, time.perf_counter_ns())
        self._show()

    def _gone(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._ended.set()

    def _show(self, last: bool = False) -> None:
        now_ns = time.perf_counter_ns()
        if self._on_progress is not None and (last or now_ns >= self._next_progress_ns):
            self._next_progress_ns = now_ns + PROGRESS_NS
            self._on_progress(len(self.samples), len(self._places))
