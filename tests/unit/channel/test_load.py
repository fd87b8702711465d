# SPDX-License-Identifier: Apache-2.0
"""One load for all channels, and what it would cost, worked out before anything is sent."""

import pytest

from vllm_perf.channel.budget import Forecast, forecast, lines, refuse_beyond_caps
from vllm_perf.channel.compare import Entrant, Settings
from vllm_perf.channel.load import common_load
from vllm_perf.channel.manners import Manners, manners_of
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.channel import ChannelSpec, Prices, RateLimits
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec

WORKLOAD = WorkloadSpec(
    name="w",
    prompt=PromptSpec(kind="unique", unique_tokens=100),
    arrival=ArrivalSpec(concurrency=4),
    output_tokens=50,
    requests=10,
    warmup_requests=2,
)


def channel(name: str, **limits: float) -> tuple[ChannelSpec, Manners]:
    """Return a channel with these limits, 2 and 10 EUR a million tokens."""
    spec = ChannelSpec(
        name=name,
        base_url="http://127.0.0.1:1/v1",
        model="m",
        prices=Prices(currency="EUR", prompt_per_million=2, output_per_million=10),
        limits=RateLimits.model_validate(limits),
    )
    return spec, manners_of(spec, spend_cap=1.0)


def test_without_limits_the_load_stays_as_it_is() -> None:
    assert common_load(WORKLOAD, [channel("a"), channel("b")], None) == (WORKLOAD, ())


def test_the_lowest_concurrency_allowed_holds_for_all() -> None:
    found, notes = common_load(WORKLOAD, [channel("a"), channel("b", max_concurrency=2)], None)
    assert found.arrival.concurrency == 2
    assert notes == ("concurrency 4 was lowered to 2 for all: b allows no more",)


def test_the_strictest_rate_holds_for_all() -> None:
    # tokens a request: 2 x 100 + 50 = 250, so 6000 tokens/min are one request in 2.5 s; 30/min one in 2 s
    sides = [channel("a", requests_per_min=30), channel("b", tokens_per_min=6000)]
    found, notes = common_load(WORKLOAD, sides, None)
    assert found.arrival.max_rate_per_s == pytest.approx(0.4)
    assert notes == ("requests start at least 2.50 s apart on all channels, as b asks",)


def test_the_users_own_rate_is_a_limit_too() -> None:
    found, _ = common_load(WORKLOAD, [channel("a", requests_per_min=30)], 10.0)
    assert found.arrival.max_rate_per_s == pytest.approx(1 / 6)


def test_an_open_loop_that_is_too_fast_is_refused_and_one_that_is_not_stays() -> None:
    fast = WORKLOAD.model_copy(update={"arrival": ArrivalSpec(kind="constant", rate_per_s=1.0)})
    with pytest.raises(SpecError, match=r"sends 1 requests/s, a allows 0\.5"):
        common_load(fast, [channel("a", requests_per_min=30)], None)
    slow = WORKLOAD.model_copy(update={"arrival": ArrivalSpec(kind="constant", rate_per_s=0.4)})
    assert common_load(slow, [channel("a", requests_per_min=30)], None) == (slow, ())


def plan(cap: float = 1.0) -> Forecast:
    """Return what a comparison of three rounds would send to one channel."""
    spec, _ = channel("a")
    target = Target(base_url=spec.base_url, model="m", name="a")
    entrant = Entrant(spec=spec, target=target, manners=manners_of(spec, spend_cap=cap))
    return forecast(entrant, WORKLOAD, Settings(pairs=3))


def test_a_forecast_counts_every_purpose() -> None:
    counted = {
        purpose.name: (purpose.requests, purpose.prompt_tokens, purpose.output_tokens)
        for purpose in plan().purposes
    }
    assert counted == {
        "handshake": (3, 120, 72),
        "cache probe": (6, 6 * 1280, 6),
        "warm-up": (2, 200, 100),
        "measured": (30, 3000, 1500),
    }


def test_a_forecast_costs_its_tokens() -> None:
    # (120 + 7680 + 200 + 3000) x 2 + (72 + 6 + 100 + 1500) x 10 = 22000 + 16780, a million
    assert plan().cost == pytest.approx(0.03878)
    assert plan().most_cost > plan().cost


def test_a_run_beyond_the_cap_is_refused_with_the_figures() -> None:
    refuse_beyond_caps([plan(cap=0.04)])
    with pytest.raises(SpecError, match=r"would cost about 0\.038780 EUR, and the spend cap is 0\.030000"):
        refuse_beyond_caps([plan(cap=0.03)])


def test_a_forecast_can_be_read() -> None:
    text = "\n".join(lines(plan()))
    assert "a: 41 requests to http://127.0.0.1:1/v1, no key" in text
    assert "cost: about 0.038780 EUR" in text
    assert '"model":"m"' in text
