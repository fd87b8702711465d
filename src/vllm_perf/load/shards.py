# SPDX-License-Identifier: Apache-2.0
"""Split one load over several processes and put their samples together again.

``perf_counter_ns`` is ``CLOCK_MONOTONIC`` on Linux: one clock for all processes of a host, so samples of
different shards are compared as they are. Shards on several hosts would each be right about latencies, which
are differences of one clock, but not about what happened at the same time.
"""

import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from vllm_perf.load.failures import Failure
from vllm_perf.load.generator import run_load
from vllm_perf.load.loop import Progress
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.runs import Conduct, nothing_sent, peak_in_flight, run_of
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.category import Category

# All workers have been asked and answered before the start is chosen: this is for opening connections.
START_DELAY_NS = 300_000_000
OPENING_NS_A_REQUEST = 2_000_000
READY = b"ready"
WORKER = (
    "import sys; from vllm_perf.load.shards import worker_main; "
    "worker_main(sys.stdin.buffer, sys.stdout.buffer)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One process's part: ``places`` are its requests' places in the whole plan."""

    plan: LoadPlan
    places: tuple[int, ...]
    start_ns: int | None = None


def run_shard(shard: Shard) -> Run:
    """Run one shard: a plain function of data to data, wherever it runs on this host."""
    return run_load(shard.plan, start_ns=shard.start_ns)


def run_sharded(plan: LoadPlan, *, processes: int = 1, on_progress: Progress | None = None) -> Run:
    """Run ``plan`` in ``processes`` processes at once; with one, in this process.

    A worker that dies takes its requests with it: they are samples that say so.

    Raises:
        SpecError: as ``run_load`` does.
    """
    shards = split(plan, processes)
    if len(shards) < 2:
        return run_load(plan, on_progress=on_progress)
    workers = [_start_worker() for _ in shards]
    try:
        for worker in workers:
            _receive(worker)
        start_ns = time.perf_counter_ns() + START_DELAY_NS + _opening_ns(plan)
        shards = [
            replace(shard, start_ns=start_ns + _ramp_shift_ns(plan, k)) for k, shard in enumerate(shards)
        ]
        for worker, shard in zip(workers, shards, strict=True):
            _send(worker, shard)
        runs = [_outcome(worker, shard) for worker, shard in zip(workers, shards, strict=True)]
    finally:
        for worker in workers:
            _stop(worker)
    if on_progress is not None:
        on_progress(len(plan.requests), len(plan.requests))
    return merge(plan, shards, runs)


def split(plan: LoadPlan, count: int) -> list[Shard]:
    """Deal requests out in turn, conversations whole; a closed loop's slots are dealt out with them."""
    is_closed = plan.arrival.kind == "closed"
    count = max(1, min(count, len(plan.requests), plan.arrival.concurrency if is_closed else count))
    dealt: list[list[int]] = [[] for _ in range(count)]
    shard_of: dict[str, int] = {}
    turn = 0
    for place, request in enumerate(plan.requests):
        shard = shard_of.get(request.after or "")
        if shard is None:
            shard, turn = turn % count, turn + 1
        shard_of[request.prompt_id] = shard
        dealt[shard].append(place)
    return [_part(plan, places, k, count) for k, places in enumerate(dealt) if places]


def merge(plan: LoadPlan, shards: Sequence[Shard], runs: Sequence[Run]) -> Run:
    """Put the shards' samples in the order of the whole plan; every one of them is there."""
    placed: list[tuple[int, int, RequestSample]] = []
    for number, (shard, run) in enumerate(zip(shards, runs, strict=True)):
        for sample in run.samples:
            placed.append((shard.places[int(sample.id.rpartition("-")[2])], number, sample))
    samples = [sample for _, _, sample in sorted(placed, key=lambda entry: entry[:2])]
    clocks = {run.clock for run in runs}
    conduct = Conduct(
        begin_ns=min(run.started_ns for run in runs),
        wall_started_s=min(run.wall_started_s for run in runs),
        peak_in_flight=peak_in_flight(samples),
        clock=clocks.pop() if len(clocks) == 1 else "mixed: " + ", ".join(sorted(clocks)),
        scheduling=", ".join(sorted({run.scheduling for run in runs})),
        # The worst shard's, since its requests are those that may be wrong.
        cpu_wait_ns=max(run.cpu_wait_ns for run in runs),
        long_cpu_wait_ns=max(run.long_cpu_wait_ns for run in runs),
        worst_cpu_wait_ns=max(run.worst_cpu_wait_ns for run in runs),
        warnings=tuple(dict.fromkeys(warning for run in runs for warning in run.warnings)),
    )
    return run_of(plan, samples, conduct)


def worker_main(requests: BinaryIO, answers: BinaryIO) -> None:
    """Say that this process is ready, take one shard, run it, give back its run (pickled, both ways)."""
    pickle.dump(READY, answers)
    answers.flush()
    shard = pickle.load(requests)
    pickle.dump(run_shard(shard), answers)
    answers.flush()


def _part(plan: LoadPlan, places: list[int], number: int, count: int) -> Shard:
    concurrency = len(range(number, plan.arrival.concurrency, count)) or 1
    most = plan.arrival.max_rate_per_s
    share = {"concurrency": concurrency, "max_rate_per_s": most / count if most else None}
    arrival = plan.arrival.model_copy(update=share)
    requests: tuple[PlannedRequest, ...] = tuple(plan.requests[place] for place in places)
    return Shard(plan=replace(plan, requests=requests, arrival=arrival), places=tuple(places))


def _ramp_shift_ns(plan: LoadPlan, number: int) -> int:
    """Return by how much shard ``number`` starts later, so that the slots of all are evenly spread."""
    return round(number * plan.arrival.ramp_s / plan.arrival.concurrency * 1e9)


def _opening_ns(plan: LoadPlan) -> int:
    return OPENING_NS_A_REQUEST * min(plan.arrival.concurrency, len(plan.requests))


def _start_worker() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", WORKER]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _send(worker: "subprocess.Popen[bytes]", shard: Shard) -> None:
    if worker.stdin is None:
        return
    try:
        pickle.dump(shard, worker.stdin)
        worker.stdin.close()
    except BrokenPipeError:
        # It died already; _outcome will say so.
        return


def _receive(worker: "subprocess.Popen[bytes]") -> object:
    if worker.stdout is None:
        return None
    try:
        return pickle.load(worker.stdout)
    except (EOFError, pickle.UnpicklingError):
        return None


def _outcome(worker: "subprocess.Popen[bytes]", shard: Shard) -> Run:
    found = _receive(worker)
    if isinstance(found, Run):
        return found
    detail = f"the load's worker process died with exit code {worker.wait()}"
    return nothing_sent(shard.plan, Failure(Category.UNKNOWN, detail), time.time())


def _stop(worker: "subprocess.Popen[bytes]") -> None:
    if worker.poll() is None:
        worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None and not pipe.closed:
            pipe.close()
