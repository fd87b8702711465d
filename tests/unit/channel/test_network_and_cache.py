# SPDX-License-Identifier: Apache-2.0
"""Round trips and prompt caches, by hand and against a golden engine whose cache is known."""

from dataclasses import replace

import pytest

from tests.unit.metrics.making import request, with_ttft
from vllm_perf.channel.cache import AGAIN, CacheProbe, doubled, judge
from vllm_perf.channel.errors import ChannelUnusable
from vllm_perf.channel.network import Network, measure_connects, measure_gets
from vllm_perf.golden import GoldenServer
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.sample import RequestSample
from vllm_perf.spec.category import Category
from vllm_perf.spec.target import Target


def pairs(*times: tuple[float, float], cached: int | None = None) -> list[RequestSample]:
    """Return samples of prompts sent twice, by their two TTFTs in ms."""
    samples = []
    for number, (first, again) in enumerate(times):
        samples.append(with_ttft(first, f"p{number}"))
        samples.append(replace(with_ttft(again, f"p{number}{AGAIN}"), cached_tokens=cached))
    return samples


def test_each_prompt_is_sent_twice_in_a_row() -> None:
    prompts = [PlannedRequest(prompt_id=name, body=name.encode()) for name in ("a", "b")]
    assert [one.prompt_id for one in doubled(prompts)] == ["a", "a-again", "b", "b-again"]
    assert [one.body for one in doubled(prompts)] == [b"a", b"a", b"b", b"b"]


def test_tokens_that_usage_calls_cached_are_proof() -> None:
    assert judge(pairs((100, 99), (100, 101), cached=1024)).caches is True


def test_zero_cached_tokens_prove_nothing_when_every_second_time_is_much_shorter() -> None:
    assert judge(pairs((200, 50), (210, 48), (190, 55), cached=0)).caches is True


def test_second_times_like_the_first_are_no_cache() -> None:
    assert judge(pairs((100, 98), (100, 103), (100, 95))).caches is False


def test_between_the_two_nobody_knows() -> None:
    assert judge(pairs((100, 80), (100, 82), (100, 79))).caches is None


def test_one_second_time_that_is_longer_spoils_the_proof() -> None:
    assert judge(pairs((200, 50), (210, 230), (190, 55))).caches is None


def test_times_too_short_to_tell_are_not_known() -> None:
    assert judge(pairs((3, 1), (3, 1))).caches is None


@pytest.mark.parametrize(("hit_rate", "caches"), [(0.45, True), (0.0, False)])
def test_the_servers_own_counters_decide_where_there_are_any(hit_rate: float, caches: bool) -> None:
    assert judge(pairs((100, 80), (100, 82)), hit_rate).caches is caches


def test_a_probe_without_answers_knows_nothing() -> None:
    assert judge([]) == CacheProbe()
    assert judge([request("p0")]).sentence() == "not known (the probe got no answers)"


def test_a_round_trip_is_the_median_of_all_handshakes() -> None:
    network = Network(connects_ms=[3.0, 1.0, 2.0])
    assert network.rtt_ms == 2.0


def test_a_proxy_hides_the_round_trip() -> None:
    network = Network(through_proxy=True, connects_ms=[1.0])
    assert network.rtt_ms is None
    assert network.rtt_interval_ms == (None, None)


def test_connects_and_gets_are_measured_on_a_real_socket() -> None:
    network = Network()
    with GoldenServer() as golden:
        target = Target(base_url=golden.base_url, model="golden", name="x")
        first = measure_connects(target, network, 3)
        measure_gets(target, network, 2)
    assert first == network.rtt_ms
    assert len(network.connects_ms) == 3
    assert len(network.gets_ms) == 2
    assert all(time_ms > 0 for time_ms in [*network.connects_ms, *network.gets_ms])


def test_a_closed_port_has_no_round_trip_but_a_category() -> None:
    target = Target(base_url="http://127.0.0.1:1/v1", model="m", name="x")
    with pytest.raises(ChannelUnusable) as caught:
        measure_connects(target, Network(), 1)
    assert caught.value.diagnosis.category is Category.SERVER_DOWN
