# SPDX-License-Identifier: Apache-2.0
"""Each fact of a handshake against a channel that is known to be so."""

import dataclasses
import json

import pytest

from tests.unit.channel.picky import PickyChannel, Ways
from vllm_perf.channel.errors import ChannelUnusable, Stopped
from vllm_perf.channel.facts import Handshake, lines
from vllm_perf.channel.handshake import ASKED_TOKENS, shake_hands
from vllm_perf.channel.manners import Manners, free_manners
from vllm_perf.channel.pacer import Pacer
from vllm_perf.channel.purse import Purse
from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.spec.category import Category
from vllm_perf.spec.channel import Prices, RateLimits
from vllm_perf.spec.target import Target

QUICK = Profile(ttft_ms=5, itl_ms=1)
KEY = "sk-live-0123456789abcdef"


def meet(channel: PickyChannel | GoldenServer, model: str = "m") -> Handshake:
    """Shake hands without limits."""
    target = Target(base_url=channel.base_url, model=model, name="x")
    return shake_hands(target, free_manners("x"))


def picky(ways: Ways) -> tuple[Handshake, PickyChannel]:
    """Shake hands with a picky channel; return what was found and the channel, for its account."""
    with PickyChannel(ways) as channel:
        return meet(channel), channel


def test_an_engine_like_vllm_gives_everything() -> None:
    with GoldenServer(QUICK) as golden:
        facts = meet(golden, "golden")
    assert (facts.usage, facts.stream_options, facts.pins_length, facts.max_tokens) == (True,) * 4
    assert (facts.metrics, facts.buffered, facts.tokens_per_chunk) == (True, False, 1.0)
    assert facts.models == ("golden",)
    assert facts.requests == 3
    assert facts.spent.output_tokens == 3 * ASKED_TOKENS


def test_text_that_never_changes_proves_nothing_about_the_seed() -> None:
    with GoldenServer(QUICK) as golden:
        assert meet(golden, "golden").seed is None


def test_the_same_seed_giving_the_same_text_and_another_another_is_honoured() -> None:
    assert picky(Ways())[0].seed is True


def test_the_same_seed_giving_another_text_is_not_honoured() -> None:
    assert picky(Ways(honours_seed=False))[0].seed is False


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_the_field_that_carries_reasoning_is_named(name: str) -> None:
    profile = dataclasses.replace(QUICK, reasoning_tokens=8, reasoning_field=name)
    with GoldenServer(profile) as golden:
        assert meet(golden, "golden").reasoning_field == name


def test_four_tokens_a_chunk_are_seen_from_usage() -> None:
    with GoldenServer(dataclasses.replace(QUICK, tokens_per_chunk=4)) as golden:
        assert meet(golden, "golden").tokens_per_chunk == 4.0


def test_a_channel_without_usage_leaves_what_hangs_on_it_unknown() -> None:
    facts, _ = picky(Ways(usage=False))
    assert facts.usage is False
    assert (facts.pins_length, facts.tokens_per_chunk) == (None, None)


def test_answers_that_end_by_themselves_are_not_pinned() -> None:
    assert picky(Ways(pins_length=False))[0].pins_length is False


def test_more_tokens_than_allowed_are_noticed() -> None:
    assert picky(Ways(honours_max_tokens=False))[0].max_tokens is False


def test_a_stream_that_comes_in_one_piece_is_buffered() -> None:
    assert picky(Ways(in_one_piece=True))[0].buffered is True


@pytest.mark.parametrize(
    ("refuses", "left_out"),
    [
        (("ignore_eos",), ("ignore_eos", "min_tokens")),
        (("stream_options",), ("stream_options",)),
        (("seed",), ("seed",)),
        (("ignore_eos", "seed"), ("ignore_eos", "min_tokens", "seed")),
        (("ignore_eos", "stream_options"), ("ignore_eos", "min_tokens", "seed", "stream_options")),
    ],
)
def test_what_a_channel_refuses_is_found_and_left_out(
    refuses: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    facts, channel = picky(Ways(refuses=refuses))
    assert facts.left_out == left_out
    assert facts.stream_options is ("stream_options" not in left_out)
    assert len(channel.account.completions) == 3
    assert facts.notes[0].startswith(f"refused {', '.join(left_out)}: HTTP 400")


def test_a_refused_key_ends_the_handshake_with_its_category_and_without_the_key() -> None:
    with GoldenServer(QUICK, ServerOptions(api_key="right")) as golden:
        target = Target(base_url=golden.base_url, model="golden", api_key=KEY, name="x")
        with pytest.raises(ChannelUnusable) as caught:
            shake_hands(target, free_manners("x"))
    assert caught.value.diagnosis.category is Category.AUTH_WRONG_OR_MISSING_KEY
    assert KEY not in str(caught.value)


def test_an_unknown_model_ends_the_handshake_with_its_category() -> None:
    with GoldenServer(QUICK) as golden, pytest.raises(ChannelUnusable) as caught:
        meet(golden, "no-such-model")
    assert caught.value.diagnosis.category is Category.MODEL_NOT_FOUND


def test_a_closed_port_ends_the_handshake_with_its_category() -> None:
    target = Target(base_url="http://127.0.0.1:1/v1", model="m", name="x")
    with pytest.raises(ChannelUnusable) as caught:
        shake_hands(target, free_manners("x"))
    assert caught.value.diagnosis.category is Category.SERVER_DOWN


def test_a_rate_limit_during_the_handshake_is_waited_for_and_counted() -> None:
    waits: list[float] = []
    manners = Manners(
        channel="x",
        purse=Purse(prices=Prices(), cap=None),
        pacer=Pacer(limits=RateLimits(), sleep=waits.append),
    )
    with PickyChannel(Ways(refuse_at=frozenset({2}))) as channel:
        facts = shake_hands(Target(base_url=channel.base_url, model="m", name="x"), manners)
    assert waits == [7.0]
    assert (manners.refused, channel.account.asked, facts.requests) == (1, 4, 3)


def test_a_cap_too_small_for_the_first_question_sends_none() -> None:
    manners = Manners(
        channel="x",
        purse=Purse(prices=Prices(output_per_million=1_000_000), cap=ASKED_TOKENS - 1.0),
        pacer=Pacer(limits=RateLimits()),
    )
    with PickyChannel() as channel, pytest.raises(Stopped, match="spend cap"):
        shake_hands(Target(base_url=channel.base_url, model="m", name="x"), manners)
    assert channel.account.asked == 0


def test_facts_can_be_stored_and_shown() -> None:
    facts, _ = picky(Ways())
    assert json.loads(json.dumps(dataclasses.asdict(facts)))["usage"] is True
    assert dict(lines(facts))["seed honoured"] == "yes"
    assert dict(lines(facts))["/metrics of vLLM"] == "no"
