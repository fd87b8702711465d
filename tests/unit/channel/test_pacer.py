# SPDX-License-Identifier: Apache-2.0
"""Pace: gaps by hand, waits by a clock that only moves when someone waits."""

import pytest

from vllm_perf.channel.errors import Stopped
from vllm_perf.channel.manners import Manners, manners_of
from vllm_perf.channel.pacer import Pacer
from vllm_perf.channel.purse import Purse
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.supply import ClosedSupply
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.channel import ChannelSpec, Prices, RateLimits
from vllm_perf.spec.workload import ArrivalSpec


class Time:
    """A clock that moves by waiting alone."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds

    def clock(self) -> float:
        return self.now_s


def pacer(time: Time, **limits: float) -> Pacer:
    """Return a pacer on that clock."""
    return Pacer(limits=RateLimits.model_validate(limits), sleep=time.sleep, clock=time.clock)


def manners(time: Time, **limits: float) -> Manners:
    """Return manners of a free channel on that clock."""
    return Manners(
        channel="x", purse=Purse(prices=Prices(), cap=None), pacer=pacer(time, **limits), most_wait_s=60.0
    )


def test_the_stricter_of_both_limits_sets_the_gap() -> None:
    both = pacer(Time(), requests_per_min=30, tokens_per_min=6000)
    assert both.gap_s(100) == 2.0
    assert both.gap_s(500) == 5.0


def test_without_limits_nothing_waits() -> None:
    time = Time()
    free = pacer(time)
    free.wait(10_000)
    free.wait(10_000)
    assert time.waits == []


def test_the_first_request_goes_at_once_and_the_next_waits_for_its_turn() -> None:
    time = Time()
    mine = pacer(time, requests_per_min=20)
    mine.wait(1)
    time.now_s += 1.0
    mine.wait(1)
    assert time.waits == [2.0]


def test_a_refusal_waits_as_long_as_it_asks_and_halves_the_pace() -> None:
    time = Time()
    mine = manners(time, requests_per_min=60)
    mine.heed(7.0)
    assert time.waits == [7.0]
    assert mine.refused == 1
    assert mine.pacer.gap_s(1) == 2.0
    assert mine.pacer.waited_s == 7.0


def test_a_refusal_without_a_time_is_given_longer_each_time() -> None:
    time = Time()
    mine = manners(time)
    mine.heed(None)
    mine.heed(None)
    assert time.waits == [5.0, 10.0]


def test_a_wait_that_is_too_long_ends_the_run_without_waiting() -> None:
    time = Time()
    with pytest.raises(Stopped, match=r"asks to wait 61 s, more than the 60 s"):
        manners(time).heed(61.0)
    assert time.waits == []


def test_the_fourth_refusal_in_a_row_ends_the_run() -> None:
    time = Time()
    mine = manners(time)
    for _ in range(3):
        mine.heed(1.0)
    with pytest.raises(Stopped, match="refused 4 times in a row"):
        mine.heed(1.0)
    assert mine.refused == 4


def test_a_channel_elsewhere_without_prices_is_refused() -> None:
    spec = ChannelSpec(name="far", base_url="https://example.com/v1")
    with pytest.raises(SpecError, match="'far' has no prices"):
        manners_of(spec, spend_cap=1.0)


def test_a_channel_that_costs_money_needs_a_cap() -> None:
    spec = ChannelSpec(
        name="far", base_url="https://example.com/v1", prices=Prices(prompt_per_million=1, currency="EUR")
    )
    with pytest.raises(SpecError, match=r"no spend cap: give --spend-cap AMOUNT, in EUR"):
        manners_of(spec, spend_cap=None)
    assert manners_of(spec, spend_cap=0.5).purse.cap == 0.5


def test_a_paced_closed_loop_keeps_starts_apart_even_when_slots_are_free() -> None:
    requests = [PlannedRequest(prompt_id=str(number), body=b"{}") for number in range(3)]
    supply = ClosedSupply(requests, ArrivalSpec(concurrency=3, max_rate_per_s=2.0), start_ns=1_000)
    starts = []
    while (due_ns := supply.next_due_ns()) is not None:
        starts.append(due_ns)
        supply.take()
    assert starts == [1_000, 500_001_000, 1_000_001_000]


def test_an_unpaced_closed_loop_starts_all_slots_at_once() -> None:
    requests = [PlannedRequest(prompt_id=str(number), body=b"{}") for number in range(3)]
    supply = ClosedSupply(requests, ArrivalSpec(concurrency=3), start_ns=1_000)
    starts = []
    while (due_ns := supply.next_due_ns()) is not None:
        starts.append(due_ns)
        supply.take()
    assert starts == [1_000, 1_000, 1_000]
