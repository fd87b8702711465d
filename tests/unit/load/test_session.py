# SPDX-License-Identifier: Apache-2.0
"""A workload measured whole on the golden engine: warm-up, reset, scrapes, exact lengths."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.load.scripted import Scripted, saying
from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.load.counting import counter_for
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import Run
from vllm_perf.load.server import max_model_len, reset_prefix_cache, wait_until_idle
from vllm_perf.load.session import make_plan, measure, warm_up
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.client import Means
from vllm_perf.spec.workload import WorkloadSpec


@pytest.fixture
def golden() -> Iterator[GoldenServer]:
    """Offer a fast golden engine."""
    options = ServerOptions(max_model_len=500)
    with GoldenServer(Profile(ttft_ms=2, itl_ms=1), options) as server:
        yield server


def target(server: GoldenServer) -> Target:
    """Return the target of a golden engine."""
    return Target(base_url=server.base_url, model=server.options.model)


def spec(**changes: Any) -> WorkloadSpec:
    """Return a small workload with a common system prompt."""
    data: dict[str, Any] = {
        "name": "w",
        "prompt": {"kind": "shared_prefix", "shared_tokens": 96, "unique_tokens": 32},
        "arrival": {"concurrency": 2},
        "requests": 6,
        "warmup_requests": 3,
        "output_tokens": 4,
    }
    return WorkloadSpec.model_validate({**data, **changes})


def measured(server: GoldenServer, **changes: Any) -> Run:
    """Measure the small workload on a golden engine."""
    return measure(spec(**changes), target(server), counter=counter_for(target(server)))


KINDS: dict[str, dict[str, Any]] = {
    "shared_prefix": {},
    "unique": {"prompt": {"kind": "unique", "unique_tokens": 64}},
    "text": {"prompt": {"kind": "text", "text": "explain what a KV cache is"}},
    "multi_turn": {"prompt": {"kind": "multi_turn", "unique_tokens": 40, "turns": 3}},
    "text completions": {"endpoint": "completions"},
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_the_server_counts_exactly_the_prompt_tokens_that_were_planned(
    golden: GoldenServer, changes: dict[str, Any]
) -> None:
    run = measured(golden, **changes)
    assert run.failed == 0
    assert len(run.expected_prompt_tokens) == 6
    assert {sample.prompt_id: sample.prompt_tokens for sample in run.samples} == run.expected_prompt_tokens


def test_the_warm_up_is_kept_apart(golden: GoldenServer) -> None:
    run = measured(golden)
    assert (run.sent, len(run.warmup_samples)) == (6, 3)
    assert {sample.prompt_id for sample in run.samples}.isdisjoint(
        sample.prompt_id for sample in run.warmup_samples
    )


def test_the_warm_up_leaves_nothing_for_the_first_measured_prompt_even_without_a_reset(
    golden: GoldenServer,
) -> None:
    run = measured(golden, reset_caches=False, arrival={"concurrency": 1})
    assert run.caches_reset is None
    assert run.samples[0].cached_tokens == 0
    assert (run.samples[1].cached_tokens or 0) >= 80


def test_caches_are_reset_between_repetitions(golden: GoldenServer) -> None:
    counter = counter_for(target(golden))
    runs = [measure(spec(arrival={"concurrency": 1}), target(golden), counter=counter) for _ in range(2)]
    assert [run.caches_reset for run in runs] == [True, True]
    assert [run.samples[0].cached_tokens for run in runs] == [0, 0]


def test_scrapes_span_the_measured_requests_and_no_others(golden: GoldenServer) -> None:
    run = measured(golden)
    before, after = run.counters_before, run.counters_after
    assert before is not None
    assert after is not None
    delta = {name: after[name] - before.get(name, 0) for name in after}
    assert delta["vllm:prompt_tokens_total"] == 6 * 128
    assert delta["vllm:generation_tokens_total"] == 6 * 4
    assert delta["vllm:request_success_total"] == 6


def test_two_measurements_send_the_same_bytes(golden: GoldenServer) -> None:
    hashes = {measured(golden).prompt_set_hash for _ in range(2)}
    assert len(hashes) == 1
    assert len(hashes.pop()) == 64


def test_h93_what_does_not_fit_the_servers_context_is_refused_before_anything_is_sent(
    golden: GoldenServer,
) -> None:
    with pytest.raises(SpecError, match="more than the server's max_model_len 500"):
        measured(golden, output_tokens=400)
    assert golden.records.all() == ()


def test_h65_the_pinned_length_is_part_of_the_run(golden: GoldenServer) -> None:
    run = measured(golden)
    assert run.pinned_output_tokens == 4
    assert {sample.output_tokens for sample in run.samples} == {4}


def test_h63_the_warm_up_has_the_lengths_and_concurrency_of_what_is_measured(golden: GoldenServer) -> None:
    warm = warm_up(spec(warmup_requests=4), target(golden), counter=counter_for(target(golden)))
    assert {(sample.prompt_tokens, sample.output_tokens) for sample in warm} == {(128, 4)}
    assert golden.records.peak_in_flight == 2


def test_an_open_loop_is_warmed_up_in_a_closed_one(golden: GoldenServer) -> None:
    run = measured(golden, arrival={"kind": "constant", "rate_per_s": 100})
    assert run.asked_rate_per_s == pytest.approx(100)
    assert len(run.warmup_samples) == 3


def test_a_server_in_several_processes_worth_of_load(golden: GoldenServer) -> None:
    run = measure(spec(), target(golden), counter=counter_for(target(golden)), means=Means(processes=2))
    assert (run.sent, run.failed) == (6, 0)
    assert {sample.prompt_tokens for sample in run.samples} == {128}


def test_the_context_length_is_read_for_the_model_asked(golden: GoldenServer) -> None:
    assert max_model_len(target(golden)) == 500
    assert max_model_len(Target(base_url=golden.base_url, model="other")) is None


def test_a_dead_server_has_no_context_length_and_no_cache_to_reset() -> None:
    dead = Target(base_url="http://127.0.0.1:9/v1", model="m")
    assert max_model_len(dead) is None
    assert reset_prefix_cache(dead) is False


def test_a_server_without_the_reset_route_says_no() -> None:
    with Scripted(saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")) as server:
        assert reset_prefix_cache(Target(base_url=server.base_url, model="m")) is False
    assert server.asked[0].line == "POST /reset_prefix_cache HTTP/1.1"


def test_a_reset_that_the_engine_refused_is_a_no() -> None:
    body = b'{"success":false}'
    with Scripted(saying(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))) as server:
        assert reset_prefix_cache(Target(base_url=server.base_url, model="m")) is False


def test_a_busy_server_is_waited_for_only_so_long() -> None:
    text = b'# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name="m"} 1.0\n'
    with Scripted(saying(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))) as server:
        assert not wait_until_idle(Target(base_url=server.base_url, model="m"), deadline_s=0.1)
    assert len(server.asked) >= 2


def test_a_server_without_metrics_counts_as_idle() -> None:
    with Scripted(saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as server:
        assert wait_until_idle(Target(base_url=server.base_url, model="m"), deadline_s=5)


def test_a_plan_says_everything_a_load_needs(golden: GoldenServer) -> None:
    plan = make_plan(spec(duration_s=3, request_timeout_s=7), target(golden), ())
    assert (plan.duration_s, plan.request_timeout_s, plan.arrival.concurrency) == (3, 7, 2)
    assert make_plan(spec(ignore_eos=False), target(golden), ()).pinned_output_tokens is None
