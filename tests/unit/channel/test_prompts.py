# SPDX-License-Identifier: Apache-2.0
"""The same prompts for every channel, apart from the first word, and bodies as each channel takes them."""

import dataclasses
import json
from typing import Any

import pytest

from vllm_perf.channel.prompts import PromptBook, adapted, max_tokens
from vllm_perf.channel.rough import RoughCounter
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.spec.workload import PromptSpec, WorkloadSpec


def book(**prompt: Any) -> PromptBook:
    """Return the prompts of a workload with words counted as tokens."""
    workload = WorkloadSpec(name="w", prompt=PromptSpec.model_validate(prompt), requests=4, output_tokens=5)
    return PromptBook(workload=workload, counter=RoughCounter(), exact=False)


def texts(requests: tuple[PlannedRequest, ...]) -> list[list[str]]:
    """Return all words of each prompt."""
    found = []
    for request in requests:
        messages = json.loads(request.body)["messages"]
        found.append(" ".join(message["content"] for message in messages).split(" "))
    return found


@pytest.mark.parametrize(
    "prompt",
    [
        {"kind": "unique", "unique_tokens": 40},
        {"kind": "shared_prefix", "shared_tokens": 40, "unique_tokens": 20},
        {"kind": "multi_turn", "unique_tokens": 30, "turns": 2},
    ],
)
def test_two_channels_get_the_same_words_after_another_first_one(prompt: dict[str, Any]) -> None:
    prompts = book(**prompt)
    for ours, theirs in zip(texts(prompts.block(0, 0)), texts(prompts.block(0, 1)), strict=True):
        assert ours[0] != theirs[0]
        assert ours[1:] == theirs[1:]


def test_three_channels_get_three_first_words() -> None:
    prompts = book(kind="unique", unique_tokens=40)
    assert len({texts(prompts.block(0, side))[0][0] for side in range(3)}) == 3


def test_prompt_ids_and_lengths_are_the_same_on_every_channel() -> None:
    prompts = book(kind="unique", unique_tokens=40)
    ours, theirs = prompts.block(0, 0), prompts.block(0, 1)
    assert [one.prompt_id for one in ours] == [one.prompt_id for one in theirs]
    assert [one.prompt_tokens for one in ours] == [one.prompt_tokens for one in theirs] == [40] * 4


def test_every_block_has_text_of_its_own_as_no_cache_can_be_reset() -> None:
    prompts = book(kind="shared_prefix", shared_tokens=40, unique_tokens=20)
    assert texts(prompts.block(0, 0))[0][1:] != texts(prompts.block(1, 0))[0][1:]


@pytest.mark.parametrize("prompt", [{"kind": "unique"}, {"kind": "shared_prefix", "shared_tokens": 40}])
def test_a_salt_keeps_two_runs_out_of_each_others_caches_and_changes_nothing_else(
    prompt: dict[str, Any],
) -> None:
    plain = book(unique_tokens=40, **prompt)
    salted = [dataclasses.replace(plain, salt=salt) for salt in (1_000, 1_001)]
    first, second, unsalted = (texts(one.block(0, 0)) for one in (*salted, plain))
    assert [one[0] for one in first] != [one[0] for one in second]
    assert [one[0] for one in first] != [one[0] for one in unsalted]
    assert [one[1:] for one in first] == [one[1:] for one in second] == [one[1:] for one in unsalted]
    assert [one.prompt_tokens for one in salted[0].block(0, 0)] == [
        one.prompt_tokens for one in plain.block(0, 0)
    ]


def test_the_users_own_text_is_sent_as_it_stands() -> None:
    prompts = book(kind="text", text="explain what a KV cache is")
    assert prompts.block(0, 0) == prompts.block(3, 1)


def test_a_probe_is_long_enough_for_any_cache_and_asks_for_one_token() -> None:
    probe = book(kind="unique", unique_tokens=40).probe(3, 0)
    assert [one.prompt_tokens for one in probe] == [1280] * 3
    assert [max_tokens(one) for one in probe] == [1] * 3
    assert len({one.body for one in probe}) == 3


def test_a_request_is_adapted_to_the_channel() -> None:
    request = book(kind="unique", unique_tokens=40).block(0, 0)[0]
    (one,) = adapted([request], model="far", left_out=("seed",), exact=True)
    body = json.loads(one.body)
    assert body["model"] == "far"
    assert "seed" not in body
    assert (one.prompt_tokens, one.output_tokens) == (40, 5)


def test_a_length_that_cannot_be_pinned_or_counted_is_not_expected() -> None:
    request = book(kind="unique", unique_tokens=40).block(0, 0)[0]
    (one,) = adapted([request], model="far", left_out=("ignore_eos", "min_tokens"), exact=False)
    assert "ignore_eos" not in json.loads(one.body)
    assert (one.prompt_tokens, one.output_tokens) == (None, None)
