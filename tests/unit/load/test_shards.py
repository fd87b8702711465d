# SPDX-License-Identifier: Apache-2.0
"""One load over several processes: dealt out whole, run on one clock, put together without a loss."""

import pickle
import socket
import threading
from typing import Any

import pytest

from tests.unit.load.scripted import Asked, Scripted, plan, saying, stream
from vllm_perf.load import shards as module
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.runs import peak_in_flight
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.shards import Shard, merge, run_shard, run_sharded, split
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import ArrivalSpec

URL = "http://127.0.0.1:9/v1"


def test_every_request_is_in_exactly_one_shard() -> None:
    shards = split(plan(URL, 11, concurrency=3), 3)
    assert sorted(place for shard in shards for place in shard.places) == list(range(11))


def test_slots_are_dealt_out_like_requests() -> None:
    shards = split(plan(URL, 20, concurrency=8), 3)
    assert [shard.plan.arrival.concurrency for shard in shards] == [3, 3, 2]


def test_a_limit_on_the_rate_is_shared() -> None:
    shards = split(plan(URL, 8, arrival=ArrivalSpec(concurrency=4, max_rate_per_s=6)), 2)
    assert [shard.plan.arrival.max_rate_per_s for shard in shards] == [3, 3]


@pytest.mark.parametrize(("count", "concurrency", "expected"), [(10, 2, 2), (3, 8, 3), (1, 1, 1)])
def test_there_are_no_more_shards_than_slots_or_requests(count: int, concurrency: int, expected: int) -> None:
    assert len(split(plan(URL, count, concurrency=concurrency), 4)) == expected


def test_conversations_stay_whole() -> None:
    names = [("a", None), ("b", None), ("c", None), ("a2", "a"), ("b2", "b"), ("a3", "a2")]
    requests = [PlannedRequest(prompt_id=name, body=b"", after=after) for name, after in names]
    shards = split(plan(URL, requests=requests, concurrency=4), 2)
    assert [[one.prompt_id for one in shard.plan.requests] for shard in shards] == [
        ["a", "c", "a2", "a3"],
        ["b", "b2"],
    ]


def test_an_open_schedule_is_dealt_out_with_its_times() -> None:
    requests = [PlannedRequest(prompt_id=str(n), body=b"", offset_ns=n) for n in range(4)]
    arrival = ArrivalSpec(kind="constant", rate_per_s=1)
    shards = split(plan(URL, requests=requests, arrival=arrival), 2)
    assert [[one.offset_ns for one in shard.plan.requests] for shard in shards] == [[0, 2], [1, 3]]


def test_a_shard_survives_being_written_down() -> None:
    shard = split(plan(URL, 4, concurrency=2, api_key="k"), 2)[1]
    assert pickle.loads(pickle.dumps(shard)) == shard


def test_two_processes_give_the_samples_of_one_in_the_plans_order() -> None:
    with Scripted(saying(*stream(3))) as server:
        run = run_sharded(plan(server.base_url, 9, concurrency=4, pinned=3), processes=2)
    assert [sample.prompt_id for sample in run.samples] == [f"p{number:05d}" for number in range(9)]
    assert {(sample.outcome, len(sample.chunk_ns)) for sample in run.samples} == {(Category.OK, 3)}
    assert run.asked_concurrency == 4
    assert {asked.headers["x-request-id"] for asked in server.asked} == {one.id for one in run.samples}


def test_all_processes_start_at_one_time_of_one_clock() -> None:
    with Scripted(saying(*stream())) as server:
        run = run_sharded(plan(server.base_url, 4, concurrency=4), processes=4)
    assert len({sample.scheduled_ns for sample in run.samples}) == 1


def test_a_ramp_is_spread_over_all_processes() -> None:
    arrival = ArrivalSpec(concurrency=4, ramp_s=0.4)
    barrier = threading.Barrier(4)

    def play(sock: socket.socket, asked: Asked) -> bool:
        barrier.wait(10)
        return saying(*stream())(sock, asked)

    with Scripted(play) as server:
        run = run_sharded(plan(server.base_url, 4, arrival=arrival), processes=2)
    starts = [sample.scheduled_ns - run.samples[0].scheduled_ns for sample in run.samples]
    assert starts == [0, 100_000_000, 200_000_000, 300_000_000]


def test_a_worker_that_dies_leaves_samples_that_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKER", "import os; os._exit(7)")
    run = run_sharded(plan(URL, 5, concurrency=2), processes=2)
    assert run.sent == 5
    assert {sample.outcome for sample in run.samples} == {Category.UNKNOWN}
    assert "exit code 7" in str(run.samples[0].detail)


def test_one_process_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(module, "_start_worker", forbidden)
    with Scripted(saying(*stream())) as server:
        assert run_sharded(plan(server.base_url, 2), processes=1).failed == 0


def test_merging_keeps_every_stamp_of_every_shard() -> None:
    with Scripted(saying(*stream(3))) as server:
        load = plan(server.base_url, 6, concurrency=2)
        shards = split(load, 2)
        runs = [run_shard(shard) for shard in shards]
    merged = merge(load, shards, runs)
    parts = sorted(stamp for run in runs for sample in run.samples for stamp in sample.chunk_ns)
    assert sorted(stamp for sample in merged.samples for stamp in sample.chunk_ns) == parts
    assert len(parts) == 18


def test_shards_know_their_requests_places() -> None:
    assert [shard.places for shard in split(plan(URL, 5, concurrency=2), 2)] == [(0, 2, 4), (1, 3)]
    assert isinstance(split(plan(URL, 5), 1)[0], Shard)


def test_the_peak_is_taken_over_all_shards() -> None:
    spans = [(0, 10), (5, 15), (10, 20), (12, 13)]
    samples = [
        RequestSample(id=str(n), prompt_id="p", scheduled_ns=0, sent_ns=a, end_ns=b)
        for n, (a, b) in enumerate(spans)
    ]
    # At 12 the second, third and fourth are in flight; at 10 the first has ended as the third begins.
    assert peak_in_flight(samples) == 3
