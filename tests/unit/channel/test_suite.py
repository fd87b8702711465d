# SPDX-License-Identifier: Apache-2.0
"""A channel as the one engine of a suite: what is planned, what is sent, and what is left out of a cell."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.channel.picky import PickyChannel, Ways
from vllm_perf.channel.errors import Stopped
from vllm_perf.channel.rounds import known_of
from vllm_perf.channel.suite import SuiteChannel, plan_channel
from vllm_perf.engine.errors import TargetUnusable
from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.history.record import Series, SeriesStatus
from vllm_perf.lab.result import CellResult
from vllm_perf.load.sample import Run
from vllm_perf.metrics.reasons import InvalidCode
from vllm_perf.metrics.validity import check_validity
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.channel import ChannelSpec, Prices, RateLimits
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec

KEY = "sk-live-0123456789abcdef"
WORKLOAD = WorkloadSpec(
    name="w",
    prompt=PromptSpec(kind="shared_prefix", shared_tokens=200, unique_tokens=20),
    arrival=ArrivalSpec(concurrency=2),
    output_tokens=4,
    requests=4,
    repetitions=2,
    warmup_requests=1,
)
EUROS = Prices(currency="EUR", prompt_per_million=1000, output_per_million=1000)


def spec(url: str, **more: Any) -> ChannelSpec:
    """Return a channel that needs a key."""
    return ChannelSpec(name="far", base_url=url, key_env="FAR_KEY", **{"model": "golden", **more})


def meet(channel: ChannelSpec, cap: float | None = None) -> SuiteChannel:
    """Plan a suite of one workload and shake hands."""
    env = {"FAR_KEY": KEY}
    plan = plan_channel(channel, [WORKLOAD], env, cap)
    engine = EngineSpec(name="far", title="far", model=channel.model)
    return SuiteChannel.meet(plan.entrant(env), engine)


def send(channel: SuiteChannel, repetition: int = 0, workload: WorkloadSpec = WORKLOAD) -> Run:
    """Send one repetition of the workload."""
    return channel.send(
        workload,
        channel.engine.target,
        counter=channel.counter(),
        on_progress=lambda _done, _total: None,
        repetition=repetition,
    )


def test_a_plan_lowers_the_load_to_the_limits_and_says_so() -> None:
    limits = RateLimits(requests_per_min=60, max_concurrency=1)
    plan = plan_channel(spec("http://127.0.0.1:1/v1", limits=limits), [WORKLOAD], {"FAR_KEY": KEY}, None)
    arrival = plan.workloads[0].arrival
    assert (arrival.concurrency, arrival.max_rate_per_s) == (1, 1.0)
    assert plan.notes[0] == "w: concurrency 2 was lowered to 1 for all: far allows no more"
    # 3 questions, 2 warm-ups of 1, 2 repetitions of 4; one a second.
    assert (plan.forecast.requests, plan.forecast.least_s) == (13, 13.0)


def test_a_plan_beyond_the_cap_is_refused() -> None:
    with pytest.raises(SpecError, match=r"would cost about 2\.\d+ EUR, and the spend cap is 1\.000000"):
        plan_channel(spec("http://127.0.0.1:1/v1", prices=EUROS), [WORKLOAD], {"FAR_KEY": KEY}, 1.0)


def test_an_open_loop_faster_than_the_channel_allows_is_refused() -> None:
    fast = WORKLOAD.model_copy(update={"arrival": ArrivalSpec(kind="constant", rate_per_s=5.0)})
    limited = spec("http://127.0.0.1:1/v1", limits=RateLimits(requests_per_min=60))
    with pytest.raises(SpecError, match="sends 5 requests/s, far allows 1"):
        plan_channel(limited, [fast], {"FAR_KEY": KEY}, None)


def test_a_channel_that_is_met_is_an_engine_with_what_it_says_of_itself() -> None:
    with GoldenServer(Profile(ttft_ms=5, itl_ms=1), ServerOptions(api_key=KEY)) as golden:
        channel = meet(spec(golden.base_url, model=""))
    assert (channel.engine.name, channel.engine.target.model) == ("far", "golden")
    assert channel.engine.facts == {"prefix_caching": True}
    assert channel.engine.process is None
    assert "usage in the stream: yes" in channel.handshake()
    assert KEY not in repr(channel)


def test_a_wrong_key_is_a_target_that_cannot_be_measured() -> None:
    with (
        GoldenServer(Profile(ttft_ms=5), ServerOptions(api_key="right")) as golden,
        pytest.raises(TargetUnusable, match=r"(?s)channel 'far' cannot be measured.*AUTH_WRONG") as caught,
    ):
        meet(spec(golden.base_url))
    assert KEY not in str(caught.value)


def test_a_repetition_and_a_later_run_find_nothing_in_the_channels_cache() -> None:
    """The common prompt is found by the other requests of its own block, and by nobody else's."""
    with GoldenServer(Profile(ttft_ms=5, itl_ms=1), ServerOptions(api_key=KEY)) as golden:
        first, later = meet(spec(golden.base_url)), meet(spec(golden.base_url))
        later.salt = first.salt + 1
        # One at a time: of two at once, the second may or may not find what the first has in common with it.
        alone = WORKLOAD.model_copy(update={"arrival": ArrivalSpec(kind="closed", concurrency=1)})
        runs = [send(first, 0, alone), send(first, 1, alone), send(later, 0, alone)]
    hits = [_hits(run) for run in runs]
    assert hits[0] > 0
    assert len(set(hits)) == 1
    assert runs[0].prompt_set_hash == runs[2].prompt_set_hash
    assert runs[0].prompt_set_hash != runs[1].prompt_set_hash
    assert all(len(run.warmup_samples) == 1 for run in runs)


def _hits(run: Run) -> float:
    name = "vllm:prefix_cache_hits_total"
    assert run.counters_before is not None
    assert run.counters_after is not None
    return run.counters_after[name] - run.counters_before[name]


def test_the_purse_is_one_for_all_cells_and_what_it_does_not_hold_is_not_sent() -> None:
    with PickyChannel(Ways(tokens_a_byte=0.9)) as far:
        channel = meet(spec(far.base_url, model="m", prices=EUROS), cap=20.0)
        with pytest.raises(Stopped, match="spend cap"):
            _until_stopped(lambda: send(channel))
        billed = (far.account.prompt_tokens + far.account.output_tokens) / 1000
    assert 10 < billed <= 20.0
    assert channel.side.manners.purse.spent == pytest.approx(billed)
    assert f"spent {billed:.6f} of 20.000000 EUR" in channel.account()


def _until_stopped(step: Callable[[], object]) -> None:
    for _ in range(100):
        step()


def test_once_stopped_nothing_more_is_sent() -> None:
    with PickyChannel() as far:
        channel = meet(spec(far.base_url, model="m"))
        channel.require_open()
        channel.stopped = Stopped("far", "spend cap: reached")
    with pytest.raises(Stopped, match="spend cap: reached"):
        channel.require_open()


def test_what_means_nothing_on_a_channel_is_taken_out_of_its_cell_with_the_reason() -> None:
    with PickyChannel(Ways(usage=False, chunk_gap_s=0.01)) as far:
        channel = meet(spec(far.base_url, model="m"))
        send(channel)
    cell = CellResult(engine="far", workload="w", series=(series("ttft_p50"), series("output_throughput")))
    judged = channel.judged(cell, WORKLOAD)
    assert [one.metric for one in judged.series] == ["ttft_p50"]
    assert judged.not_comparable["output_throughput"] == "far sends no usage: its tokens are not counted"
    assert judged.not_comparable["prefix_hit_rate"] == "far shows no /metrics"
    assert judged.unavailable["output_throughput"] == judged.not_comparable["output_throughput"]


def test_a_hit_rate_that_a_channel_does_not_tell_spoils_nothing() -> None:
    expecting = WORKLOAD.model_copy(update={"hit_rate_max": 0.02})
    with PickyChannel(Ways(chunk_gap_s=0.01)) as far:
        channel = meet(spec(far.base_url, model="m"))
        run = send(channel)
    assert InvalidCode.HIT_RATE in [one.code for one in check_validity(run, expecting)]
    told = check_validity(run, expecting, known_of(channel.side))
    assert InvalidCode.HIT_RATE not in [one.code for one in told]


@pytest.mark.parametrize("bursts", [True, False])
def test_whole_blocks_outweigh_a_handshake_that_saw_bursts(bursts: bool) -> None:
    with PickyChannel(Ways(in_one_piece=True)) as far:
        channel = meet(spec(far.base_url, model="m"))
        assert channel.side.facts.buffered is True
        far.ways.in_one_piece = bursts
        far.ways.chunk_gap_s = 0.01
        send(channel)
    judged = channel.judged(CellResult(engine="far", workload="w"), WORKLOAD)
    assert ("ttft_p50" in judged.not_comparable) is bursts


def series(metric: str) -> Series:
    """Return a series with one value."""
    return Series(
        engine="far",
        workload="w",
        metric=metric,
        unit="ms",
        direction="lower",
        value=1.0,
        sent=1,
        ok=1,
        status=SeriesStatus.OK,
        replicates=(1.0,),
    )
