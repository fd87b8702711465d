# SPDX-License-Identifier: Apache-2.0
"""Blocks sent with manners: 429 and Retry-After, the spend cap, what is charged."""

import contextlib
import json

import pytest

from tests.unit.channel.picky import PickyChannel, Ways
from vllm_perf.channel.errors import Stopped
from vllm_perf.channel.facts import Handshake
from vllm_perf.channel.manners import Manners
from vllm_perf.channel.pacer import Pacer
from vllm_perf.channel.purse import Purse
from vllm_perf.channel.side import Side, send_block
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.spec.category import Category
from vllm_perf.spec.channel import ChannelSpec, Prices, RateLimits
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import ArrivalSpec

OUTPUT = 4


def make_side(channel: PickyChannel, waits: list[float], *, cap: float | None = None) -> Side:
    """Return a side whose waits are written down instead of waited for; 1 EUR a token, both ways."""
    prices = Prices(currency="EUR", prompt_per_million=1_000_000, output_per_million=1_000_000)
    return Side(
        spec=ChannelSpec(name="x", base_url=channel.base_url),
        target=Target(base_url=channel.base_url, model="m", name="x"),
        manners=Manners(
            channel="x",
            purse=Purse(prices=prices, cap=cap),
            pacer=Pacer(limits=RateLimits(), sleep=waits.append),
        ),
        facts=Handshake(channel="x", base_url=channel.base_url, model="m"),
    )


def plan(channel: PickyChannel, count: int, concurrency: int = 1) -> LoadPlan:
    """Return a block of ``count`` requests."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": OUTPUT,
        "ignore_eos": True,
    }
    data = json.dumps(body).encode()
    return LoadPlan(
        workload="w",
        endpoint="chat",
        target=Target(base_url=channel.base_url, model="m", name="x"),
        requests=tuple(
            PlannedRequest(prompt_id=f"p{number}", body=data, output_tokens=OUTPUT) for number in range(count)
        ),
        arrival=ArrivalSpec(concurrency=concurrency),
        pinned_output_tokens=OUTPUT,
        request_timeout_s=10.0,
    )


def test_after_a_429_nothing_is_sent_until_the_wait_is_over_and_the_refused_one_comes_again() -> None:
    waits: list[float] = []
    with PickyChannel(Ways(refuse_at=frozenset({3}))) as channel:
        side = make_side(channel, waits)
        asked_at_wait: list[int] = []

        def wait(seconds: float) -> None:
            asked_at_wait.append(channel.account.asked)
            waits.append(seconds)

        side.manners.pacer.sleep = wait
        run = send_block(side, plan(channel, 5))
    assert waits == [7.0]
    assert asked_at_wait == [3]
    outcomes = [(sample.prompt_id, sample.outcome) for sample in run.samples]
    assert outcomes == [
        ("p0", Category.OK),
        ("p1", Category.OK),
        ("p2", Category.RATE_LIMITED),
        ("p2", Category.OK),
        ("p3", Category.OK),
        ("p4", Category.OK),
    ]
    assert side.manners.refused == 1
    assert run.samples[2].retry_after_s == 7.0


def test_a_refused_request_is_a_failed_sample_and_its_second_try_is_timed_from_its_own_sending() -> None:
    with PickyChannel(Ways(refuse_at=frozenset({1}))) as channel:
        run = send_block(make_side(channel, []), plan(channel, 1))
    first, second = run.samples
    assert run.failed == 1
    assert first.sent_ns is not None
    assert second.sent_ns is not None
    assert first.end_ns is not None
    assert second.scheduled_ns >= first.end_ns


def test_a_limit_that_does_not_let_up_ends_the_block() -> None:
    waits: list[float] = []
    with PickyChannel(Ways(refuse_at=frozenset(range(1, 100)))) as channel:
        with pytest.raises(Stopped, match="refused 4 times in a row"):
            send_block(make_side(channel, waits), plan(channel, 5))
        assert channel.account.asked == 4
    assert waits == [7.0, 7.0, 7.0]


def test_a_refusal_costs_nothing_and_an_answer_what_usage_says() -> None:
    with PickyChannel(Ways(refuse_at=frozenset({2}))) as channel:
        side = make_side(channel, [])
        send_block(side, plan(channel, 3))
        account = channel.account
    assert side.manners.purse.spent == pytest.approx(account.prompt_tokens + account.output_tokens)


def test_a_block_that_may_cost_more_than_is_left_is_not_begun() -> None:
    with PickyChannel() as channel:
        block = plan(channel, 3)
        worst = len(block.requests[0].body) + OUTPUT
        side = make_side(channel, [], cap=3 * worst - 1.0)
        with pytest.raises(Stopped, match=r"spend cap: 0\.000000 EUR are spent and the next 3 requests"):
            send_block(side, block)
        assert channel.account.asked == 0


def test_the_cap_ends_a_run_of_blocks_before_the_channels_own_account_exceeds_it() -> None:
    with PickyChannel(Ways(tokens_a_byte=0.9)) as channel:
        cap = 1_500.0
        side = make_side(channel, [], cap=cap)
        blocks = 0
        with contextlib.suppress(Stopped):
            while blocks < 100:
                send_block(side, plan(channel, 2))
                blocks += 1
        billed = channel.account.prompt_tokens + channel.account.output_tokens
    assert 0 < blocks < 100
    assert billed <= cap
    # Not stopped too early either: one more block would not have fitted.
    assert billed + 2 * (len(plan(channel, 1).requests[0].body) + OUTPUT) > cap


def test_without_counts_each_answer_is_charged_its_worst_case() -> None:
    with PickyChannel(Ways(usage=False)) as channel:
        side = make_side(channel, [])
        block = plan(channel, 2)
        send_block(side, block)
    assert side.manners.purse.spent == pytest.approx(2 * (len(block.requests[0].body) + OUTPUT))
    assert side.manners.purse.uncounted == 2
