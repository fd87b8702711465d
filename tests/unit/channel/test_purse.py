# SPDX-License-Identifier: Apache-2.0
"""Money: worst cases by hand, and that what is learnt makes them tighter or wider."""

import pytest

from vllm_perf.channel.purse import Purse, Wanted
from vllm_perf.spec.channel import Prices

# 2 a million prompt tokens, 10 a million output tokens.
PRICES = Prices(currency="EUR", prompt_per_million=2.0, output_per_million=10.0)
REQUEST = Wanted(body_bytes=1000, max_tokens=100)


def purse(cap: float | None = None) -> Purse:
    """Return a purse with these prices."""
    return Purse(prices=PRICES, cap=cap)


def test_before_anything_is_known_a_byte_counts_as_a_token() -> None:
    # 1000 x 2 + 100 x 10 = 3000 a million
    assert purse().worst(REQUEST) == pytest.approx(0.003)


def test_counted_prompts_of_that_size_bound_the_next_with_a_tenth_to_spare() -> None:
    mine = purse()
    mine.charge(REQUEST, 200, 50)
    # spent 200 x 2 + 50 x 10 = 900; worst case of the next 1000 x 0.2 x 1.1 x 2 + 100 x 10 = 1440
    assert mine.spent == pytest.approx(0.0009)
    assert mine.worst(REQUEST) == pytest.approx(0.00144)


def test_a_small_prompt_says_nothing_of_a_large_one() -> None:
    mine = purse()
    mine.charge(Wanted(body_bytes=200, max_tokens=10), 10, 10)
    assert mine.worst(REQUEST) == pytest.approx(0.003)


def test_a_channel_that_overruns_max_tokens_makes_the_next_request_dearer() -> None:
    mine = purse()
    mine.charge(REQUEST, 200, 250)
    # 220 x 2 + 2.5 x 100 x 10 = 2940
    assert mine.worst(REQUEST) == pytest.approx(0.00294)


def test_without_counts_the_worst_case_is_charged_and_counted() -> None:
    mine = purse()
    mine.charge(REQUEST, None, None)
    assert mine.spent == pytest.approx(0.003)
    assert mine.uncounted == 1


def test_the_cap_is_kept_by_the_worst_case_of_all_that_would_be_sent() -> None:
    mine = purse(cap=0.007)
    assert mine.affords([REQUEST, REQUEST])
    assert not mine.affords([REQUEST, REQUEST, REQUEST])
    mine.charge(REQUEST, None, None)
    assert mine.affords([REQUEST])
    assert not mine.affords([REQUEST, REQUEST])
