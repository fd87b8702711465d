# SPDX-License-Identifier: Apache-2.0
"""Two contrasting timings through the whole path: what the client says is what the engine recorded."""

import json
import statistics
from dataclasses import dataclass
from itertools import pairwise

import pytest

from vllm_perf.golden import GoldenServer, Profile, Record
from vllm_perf.load.generator import run_load
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.metrics.latency import chunk_gaps_ns, e2el_ns, tpot_ns, ttft_ns
from vllm_perf.spec.workload import ArrivalSpec

WITHIN_NS = 2_000_000
REQUESTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One profile and how many tokens and chunks it must give."""

    profile: Profile
    tokens: int
    chunks: int
    first_chunk_tokens: int


FAST_SINGLE = Timing(profile=Profile(ttft_ms=20, itl_ms=3), tokens=24, chunks=24, first_chunk_tokens=1)
# 3 tokens first, then 4 at a time: 3 + 4 + 4 + 4 + 1 of 16; continuous usage tells the first chunk's count.
SLOW_SEVERAL = Timing(
    profile=Profile(ttft_ms=150, itl_ms=10, tokens_per_chunk=4, first_chunk_tokens=3, role_ms=5),
    tokens=16,
    chunks=5,
    first_chunk_tokens=3,
)


def _run(timing: Timing, server: GoldenServer) -> list[tuple[RequestSample, Record]]:
    body = {
        "model": "golden",
        "messages": [{"role": "user", "content": "hello there"}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": timing.tokens,
        "ignore_eos": True,
    }
    plan = LoadPlan(
        workload="profile",
        endpoint="chat",
        target=Target(base_url=server.base_url, model="golden"),
        requests=tuple(
            PlannedRequest(prompt_id=str(at), body=json.dumps(body).encode()) for at in range(REQUESTS)
        ),
        arrival=ArrivalSpec(kind="closed", concurrency=4),
        pinned_output_tokens=timing.tokens,
        request_timeout_s=30,
    )
    return [(sample, server.record(sample.id)) for sample in run_load(plan).samples]


@pytest.mark.parametrize("timing", [FAST_SINGLE, SLOW_SEVERAL], ids=["fast-single", "slow-several"])
def test_times_are_within_2_ms_of_the_record_and_tokens_exact(timing: Timing) -> None:
    with GoldenServer(timing.profile) as server:
        pairs = _run(timing, server)
    assert [sample.outcome for sample, _ in pairs] == ["ok"] * REQUESTS
    for sample, record in pairs:
        assert (
            (sample.output_tokens, sample.token_source)
            == (record.output_tokens, "usage")
            == (timing.tokens, "usage")
        )
        assert len(sample.chunk_ns) == len(record.sent_ns) == timing.chunks
        assert sample.first_chunk_tokens == record.tokens[0] == timing.first_chunk_tokens
    _close([(ttft_ns(s), _first(r) - r.received_ns) for s, r in pairs])
    _close([(e2el_ns(s), r.sent_ns[-1] - r.received_ns) for s, r in pairs])
    _close([(tpot_ns(s), (r.sent_ns[-1] - _first(r)) / (r.output_tokens - r.tokens[0])) for s, r in pairs])
    gaps = [zip(chunk_gaps_ns(s), _gaps(r), strict=True) for s, r in pairs]
    _close([(float(seen), true) for pair in gaps for seen, true in pair])


def test_the_record_keeps_the_profile() -> None:
    with GoldenServer(SLOW_SEVERAL.profile) as server:
        records = [record for _, record in _run(SLOW_SEVERAL, server)]
    # 150 ms; then chunks of 4, 4, 4 tokens after 40 ms each and one of 1 token after 10 ms: 280 ms.
    assert all(_first(r) - r.received_ns >= 150_000_000 for r in records)
    assert all(r.sent_ns[-1] - r.received_ns >= 280_000_000 for r in records)
    assert [list(r.tokens) for r in records] == [[3, 4, 4, 4, 1]] * REQUESTS


def _first(record: Record) -> int:
    return record.sent_ns[0]


def _gaps(record: Record) -> list[int]:
    return [b - a for a, b in pairwise(record.sent_ns)]


def _close(pairs: list[tuple[float | None, float]]) -> None:
    # The median: one request that the machine put to sleep between read and write says nothing about us.
    assert pairs
    errors = [abs(seen - true) for seen, true in pairs if seen is not None]
    assert len(errors) == len(pairs)
    assert statistics.median(errors) <= WITHIN_NS
