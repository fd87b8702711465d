# SPDX-License-Identifier: Apache-2.0
"""The cases of measuring wrongly, by their ids: a load on the golden engine, and what is said of it."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.golden.case_ids import case_ids
from vllm_perf.golden import GoldenServer, Noise, Profile, ServerOptions
from vllm_perf.golden.noise import NoiseSource
from vllm_perf.load.counting import counter_for
from vllm_perf.load.generator import run_load
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.sample import Run
from vllm_perf.load.session import measure as measure_workload
from vllm_perf.metrics.catalogue import measure_all
from vllm_perf.metrics.latency import chunk_gaps_ns, ttft_ns
from vllm_perf.metrics.measurement import Measurement
from vllm_perf.metrics.reasons import InvalidCode
from vllm_perf.metrics.server_side import prefix_hit_rate
from vllm_perf.metrics.validity import check_validity
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec

Check = Callable[[str], None]
QUICK = Profile(ttft_ms=5, itl_ms=1)
UNIQUE = PromptSpec(kind="unique", unique_tokens=64)
SHARED = PromptSpec(kind="shared_prefix", shared_tokens=96, unique_tokens=32)


# (id, check): the check gets the id of the misbehaviour to ask for, where it asks for one.
CHECKS: list[tuple[str, Check]] = []


def case(name: str) -> Callable[[Check], Check]:
    """Make a check the test of case ``name``."""

    def note(check: Check) -> Check:
        CHECKS.append((name, check))
        return check

    return note


def _workload(prompt: PromptSpec = UNIQUE, **more: Any) -> WorkloadSpec:
    base: dict[str, Any] = {"name": "case", "output_tokens": 4, "requests": 6, "warmup_requests": 2}
    return WorkloadSpec(prompt=prompt, **{**base, **more})


def _run(server: GoldenServer, requests: int, concurrency: int, tokens: int = 4, **golden: Any) -> Run:
    body = {
        "model": "golden",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": tokens,
        "golden": golden,
    }
    plan = LoadPlan(
        workload="case",
        endpoint="chat",
        target=Target(base_url=server.base_url, model="golden"),
        requests=tuple(
            PlannedRequest(prompt_id=str(n), body=json.dumps(body).encode()) for n in range(requests)
        ),
        arrival=ArrivalSpec(kind="closed", concurrency=concurrency),
        pinned_output_tokens=tokens,
        request_timeout_s=20,
    )
    return run_load(plan)


def _measured(server: GoldenServer, workload: WorkloadSpec) -> Run:
    target = Target(base_url=server.base_url, model="golden")
    return measure_workload(workload, target, counter=counter_for(target))


def _metric(run: Run, name: str, **workload: Any) -> Measurement:
    return measure_all([run], _workload(requests=run.sent, **workload))[name]


def _codes(run: Run, workload: WorkloadSpec) -> set[InvalidCode]:
    return {reason.code for reason in check_validity(run, workload)}


@case("H59")
def h59_n_chunks_have_n_minus_1_gaps_and_ttft_is_none_of_them(_: str) -> None:
    with GoldenServer(Profile(ttft_ms=60, itl_ms=2)) as server:
        (sample,) = _run(server, 1, 1, tokens=5).samples
    gaps = chunk_gaps_ns(sample)
    assert len(gaps) == 4
    assert max(gaps) < (ttft_ns(sample) or 0)


@case("H60")
@case("H20")
def h60_answers_without_a_token_are_failures_and_no_ttft_of_zero(fault: str) -> None:
    with GoldenServer(QUICK) as server:
        run = _run(server, 4, 2, fault=fault)
    ttft = _metric(run, "ttft_p50")
    assert (run.failed, ttft.ok) == (4, 0)
    assert ttft.value is None or ttft.value == float("inf")
    assert InvalidCode.TOO_MANY_FAILED in _codes(run, _workload())


@case("H61")
def h61_all_the_requests_asked_for_are_in_flight_at_once(_: str) -> None:
    with GoldenServer(Profile(ttft_ms=300, itl_ms=1)) as server:
        run = _run(server, 150, 150)
        assert server.records.peak_in_flight == run.peak_in_flight == 150
    assert run.failed == 0


@case("H62")
def h62_a_refused_request_is_one_request_and_one_failure(_: str) -> None:
    with GoldenServer(QUICK) as server:
        run = _run(server, 3, 1, fault="H62")
        assert server.requests_seen == 3
    assert [sample.outcome for sample in run.samples] == [Category.RATE_LIMITED] * 3


@case("H63")
def h63_the_cold_first_request_is_in_the_warm_up_and_in_no_result(_: str) -> None:
    with GoldenServer(QUICK, ServerOptions(cold_ms=200)) as server:
        run = _measured(server, _workload())
    assert max(ttft_ns(sample) or 0 for sample in run.warmup_samples) > 200_000_000
    assert _metric(run, "ttft_p50").require() < 100
    assert max(ttft_ns(sample) or 0 for sample in run.samples) < 200_000_000


@case("H64")
def h64_unique_prompts_hit_nothing_and_a_shared_prefix_does(_: str) -> None:
    with GoldenServer(QUICK) as server:
        unique, again = (_measured(server, _workload()) for _ in range(2))
        shared = _measured(server, _workload(SHARED))
    assert [prefix_hit_rate(run) for run in (unique, again)] == [0.0, 0.0]
    # 96 of 128 prompt tokens are shared, but the first to come finds none of them.
    assert 0.5 < prefix_hit_rate(shared) < 0.75


@case("H64")
def h64_a_cache_state_other_than_the_workload_says_gives_no_verdict(_: str) -> None:
    with GoldenServer(QUICK) as server:
        run = _measured(server, _workload(SHARED))
    assert InvalidCode.HIT_RATE in _codes(run, _workload(SHARED, hit_rate_max=0.1))
    assert InvalidCode.HIT_RATE not in _codes(run, _workload(SHARED, hit_rate_min=0.4))


@case("H65")
def h65_one_token_instead_of_those_asked_for_fails_every_request(_: str) -> None:
    with GoldenServer(QUICK) as server:
        run = _run(server, 4, 2, tokens=8, stop_after=1)
    assert [sample.outcome for sample in run.samples] == [Category.LENGTH_MISMATCH] * 4
    assert InvalidCode.TOO_MANY_FAILED in _codes(run, _workload())


@case("H66")
@case("H17")
@case("H18")
@case("H10")
def h66_an_error_inside_a_200_is_a_failure(fault: str) -> None:
    with GoldenServer(QUICK) as server:
        run = _run(server, 2, 1, fault="H17" if fault == "H66" else fault)
    assert [sample.outcome for sample in run.samples] == [Category.IN_BAND_ERROR] * 2


@case("H67")
def h67_preemptions_during_the_run_are_counted(_: str) -> None:
    with GoldenServer(QUICK) as server:
        server.counters.preemptions = 5
        run = _measured(server, _workload())
        assert _metric(run, "preemptions").require() == 0
        before, after = run.counters_before or {}, dict(run.counters_after or {})
    after["vllm:num_preemptions_total"] = before["vllm:num_preemptions_total"] + 3
    fields = {name: getattr(run, name) for name in Run.__dataclass_fields__}
    assert _metric(Run(**{**fields, "counters_after": after}), "preemptions").require() == 3


@case("H68")
def h68_the_same_seed_and_boot_make_the_same_noise_and_another_boot_another(_: str) -> None:
    def draws(boot: int) -> list[float]:
        source = NoiseSource(
            Noise(seed=3, boot=boot, boot_sigma=0.02, request_sigma=0.05, autocorrelation=0.6)
        )
        return [source.request_factor() for _ in range(50)]

    assert draws(1) == draws(1) != draws(2)
    assert all(a != b for a, b in itertools.pairwise(draws(1)))


@pytest.mark.parametrize(
    ("name", "check"), CHECKS, ids=[f"{name}-{check.__name__.partition('_')[2]}" for name, check in CHECKS]
)
def test_case(name: str, check: Check) -> None:
    check(name)


def test_every_case_of_measurement_is_checked() -> None:
    assert set(case_ids("measurement")) <= {name for name, _ in CHECKS}
