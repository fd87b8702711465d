# SPDX-License-Identifier: Apache-2.0
"""What the client adds, by hand-computed stamps and once for real."""

from array import array
from typing import Any

import pytest

from vllm_perf.load import floor as module
from vllm_perf.load.floor import Floor, FloorMeter, floor_of, measure_floor
from vllm_perf.load.golden_process import GoldenFailed
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.category import Category
from vllm_perf.spec.client import Client
from vllm_perf.spec.workload import WorkloadSpec

MS = 1_000_000


def sample(name: str, chunks_ms: list[float], outcome: Category = Category.OK) -> RequestSample:
    """Return a request wanted at 0 and sent at 1 ms, with chunks at ``chunks_ms``."""
    stamps = array("q", [round(chunk * MS) for chunk in chunks_ms])
    return RequestSample(
        id=name,
        prompt_id=name,
        scheduled_ns=0,
        sent_ns=1 * MS,
        first_token_ns=stamps[0],
        chunk_ns=stamps,
        outcome=outcome,
    )


def record(received_ms: float, sent_ms: list[float]) -> dict[str, Any]:
    """Return what the golden engine says it did."""
    return {"received_ns": round(received_ms * MS), "sent_ns": [round(ms * MS) for ms in sent_ms]}


def run_of(*samples: RequestSample) -> Run:
    """Return a run of these samples."""
    return Run(workload="w", target="t", samples=samples, started_ns=0, ended_ns=1, peak_in_flight=1)


def test_what_is_added_counts_from_when_the_request_was_wanted() -> None:
    # Wanted at 0, read at 2, first token written at 102 (100 after the read), stamped at 103: 3 ms added.
    floor = floor_of(run_of(sample("a", [103, 113])), {"a": record(2, [102, 112])})
    assert floor is not None
    assert floor.added_ttft_ms == (3.0,)


def test_gaps_are_compared_with_the_servers_own() -> None:
    # The server's gaps are 10 and 10, the client's 12 and 9.5.
    floor = floor_of(run_of(sample("a", [100, 112, 121.5])), {"a": record(0, [100, 110, 120])})
    assert floor is not None
    assert floor.added_gap_ms == (2.0, 0.5)


def test_failed_requests_and_unknown_ones_are_left_out() -> None:
    samples = [sample("a", [103]), sample("b", [500], Category.TIMEOUT), sample("c", [500])]
    floor = floor_of(run_of(*samples), {"a": record(2, [102]), "b": record(2, [102])})
    assert floor is not None
    assert floor.added_ttft_ms == (3.0,)


def test_nothing_in_common_is_no_floor() -> None:
    assert floor_of(run_of(sample("a", [103])), {}) is None


def test_the_median_is_what_a_run_is_judged_by() -> None:
    assert Floor(added_ttft_ms=(1.0, 9.0, 2.0), added_gap_ms=()).ttft_p50_ms == 2.0


def test_each_kind_of_load_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, Client]] = []

    def fake(workload: WorkloadSpec, client: Client) -> Floor:
        asked.append((workload.arrival.concurrency, client))
        return Floor(added_ttft_ms=(1.5,), added_gap_ms=())

    monkeypatch.setattr(module, "measure_floor", fake)
    meter = FloorMeter(client="openai")
    found = [meter.floor_ms(spec(concurrency)) for concurrency in (4, 4, 8)]
    assert (asked, found) == ([(4, "openai"), (8, "openai")], [1.5, 1.5, 1.5])


def test_a_golden_engine_that_does_not_start_leaves_the_floor_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(workload: WorkloadSpec, client: Client) -> Floor:
        raise GoldenFailed("no port")

    monkeypatch.setattr(module, "measure_floor", broken)
    assert FloorMeter().floor_ms(spec(4)) is None


def spec(concurrency: int) -> WorkloadSpec:
    """Return a workload of that concurrency."""
    data = {"name": "w", "prompt": {"kind": "unique", "unique_tokens": 64}}
    return WorkloadSpec.model_validate({**data, "arrival": {"concurrency": concurrency}})


def test_the_floor_of_a_real_load_has_a_value_for_every_request() -> None:
    floor = measure_floor(spec(2))
    assert floor is not None
    assert len(floor.added_ttft_ms) == 32
    assert len(floor.added_gap_ms) == 32 * 7
    assert 0 < floor.ttft_p50_ms < 50
