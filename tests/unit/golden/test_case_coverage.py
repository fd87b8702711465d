# SPDX-License-Identifier: Apache-2.0
"""Every case by its id, twice: as a load with its metrics and validity, and through ``vllm-perf probe``."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.golden import test_wire_cases as wire
from tests.unit.golden.case_ids import case_ids, variants
from vllm_perf.cli import main
from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.golden.faults import FAULTS
from vllm_perf.load.generator import run_load
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics.catalogue import measure_all
from vllm_perf.metrics.reasons import InvalidCode
from vllm_perf.metrics.validity import check_validity
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec

REQUESTS = 3
WORKLOAD = WorkloadSpec(name="case", prompt=PromptSpec(kind="text", text="hi"), requests=REQUESTS)
STREAM_CASES = [one for name in case_ids("streams") for one in variants(name, set(FAULTS))]
ESTIMATED = {"H21", "H21-chunked", "H28", "H28-null"}
# What it takes more than one request to show; the load's own tests are test_measurement_cases.py's.
NOT_OF_ONE_REQUEST = {
    "H61": "a cap on connections shows beyond 100 requests at once",
    "H64": "a cache hit needs a request before",
    "H67": "preemptions are a counter over a run",
    "H68": "noise is between runs",
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def server() -> Iterator[GoldenServer]:
    with GoldenServer(Profile(ttft_ms=20, itl_ms=2)) as running:
        yield running


def _load(server: GoldenServer, case: str) -> Run:
    scale = wire.SCALES.get(case, 1)
    body = {
        "model": "golden",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    plan = LoadPlan(
        workload="case",
        endpoint="chat",
        target=Target(base_url=server.base_url_for(fault=case, time_scale=scale), model="golden"),
        requests=tuple(
            PlannedRequest(prompt_id=str(at), body=json.dumps(body).encode()) for at in range(REQUESTS)
        ),
        arrival=ArrivalSpec(concurrency=REQUESTS),
        pinned_output_tokens=None,
        request_timeout_s=20.0,
    )
    return run_load(plan)


@pytest.mark.parametrize("case", STREAM_CASES)
def test_perf_path(case: str, server: GoldenServer) -> None:
    run, expected = _load(server, case), wire.OUTCOMES.get(case, "ok")
    assert [sample.outcome for sample in run.samples] == [expected] * REQUESTS
    for sample in run.samples:
        _compare(case, sample, server)
    found = measure_all([run], WORKLOAD)
    refused = {reason.code for reason in check_validity(run, WORKLOAD)}
    if expected == "ok":
        times = sorted((one.first_token_ns or 0) - (one.sent_ns or 0) for one in run.samples)
        assert found["ttft_p50"].require() == pytest.approx(times[1] / 1e6)
        assert InvalidCode.TOO_MANY_FAILED not in refused
    else:
        assert (found["ttft_p50"].value, found["ttft_p50"].failed) == (None, REQUESTS)
        assert InvalidCode.TOO_MANY_FAILED in refused
    assert (found["output_throughput"].value is None) == (expected != "ok" or case in ESTIMATED)


def _compare(case: str, sample: RequestSample, server: GoldenServer) -> None:
    record = server.record(sample.id)
    assert len(sample.chunk_ns) == len(record.tokens)
    if not record.tokens:
        assert (sample.first_token_ns, sample.output_tokens) == (None, None)
        return
    pairs = [(sample.first_token_ns, record.sent_ns[0]), (sample.last_token_ns, record.sent_ns[-1])]
    if record.answer_index is None:
        assert sample.first_answer_ns is None
    else:
        pairs.append((sample.first_answer_ns, record.sent_ns[record.answer_index]))
    for seen_ns, sent_ns in pairs:
        assert seen_ns is not None
        assert wire.EARLIEST_MS < (seen_ns - sent_ns) / 1e6 < wire.LATEST_MS
    if sample.ok:
        assert (sample.token_source == "estimated") == (case in ESTIMATED)
        assert sample.output_tokens == (len(record.tokens) if case in ESTIMATED else record.output_tokens)


def _probe(server: GoldenServer, capsys: Capture, *more: str, **golden: Any) -> dict[str, Any]:
    url = server.base_url_for(**golden) if golden else server.base_url
    code = main(["probe", "--base-url", url, "--model", "golden", "--json", *more])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (code == 0) == (result["outcome"] == "ok")
    return result


def _h59(server: GoldenServer, capsys: Capture) -> None:
    result = _probe(server, capsys, fault="H59")
    assert (result["chunks"], result["output_tokens"]) == (3, 3)
    assert result["e2el_ms"] - result["ttft_ms"] < result["ttft_ms"]


def _h60(server: GoldenServer, capsys: Capture) -> None:
    result = _probe(server, capsys, fault="H60")
    assert (result["outcome"], result["ttft_ms"], result["output_tokens"]) == ("NO_TOKEN", None, None)


def _h62(server: GoldenServer, capsys: Capture) -> None:
    before = server.requests_seen
    assert _probe(server, capsys, fault="H62")["outcome"] == "RATE_LIMITED"
    assert server.requests_seen == before + 1


def _h63(_: GoldenServer, capsys: Capture) -> None:
    with GoldenServer(Profile(ttft_ms=5), ServerOptions(cold_ms=300)) as cold:
        first, second = (_probe(cold, capsys)["ttft_ms"] for _ in range(2))
    assert first > 300 > second


def _h65(server: GoldenServer, capsys: Capture) -> None:
    result = _probe(server, capsys, "--max-tokens", "8", stop_after=1)
    assert (result["output_tokens"], result["chunks"], result["finish_reason"]) == (1, 1, "stop")


def _h66(server: GoldenServer, capsys: Capture) -> None:
    assert _probe(server, capsys, fault="H17")["outcome"] == "IN_BAND_ERROR"


PROBES: dict[str, Callable[[GoldenServer, Capture], None]] = {
    "H59": _h59,
    "H60": _h60,
    "H62": _h62,
    "H63": _h63,
    "H65": _h65,
    "H66": _h66,
}


@pytest.mark.parametrize("case", sorted(PROBES))
def test_probe(case: str, server: GoldenServer, capsys: Capture) -> None:
    PROBES[case](server, capsys)


@pytest.mark.parametrize("name", case_ids("streams"))
def test_every_stream_case_is_tested_in_both_ways(name: str) -> None:
    assert variants(name, set(STREAM_CASES))
    assert variants(name, set(wire.CASES)) == variants(name, set(STREAM_CASES))


def test_every_measurement_case_is_probed_or_takes_more_than_one_request() -> None:
    assert {*PROBES, *NOT_OF_ONE_REQUEST} == set(case_ids("measurement"))
