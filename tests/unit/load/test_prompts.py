# SPDX-License-Identifier: Apache-2.0
"""Requests of every synthetic kind: exact lengths, seeds, what is shared and what is not."""

import json
from typing import Any

import pytest

from tests.unit.load.tokenizers import FakeCounter, one_a_letter, starts, texts
from vllm_perf.load.counting import Prompt
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.prompts import build_requests, prompt_set_hash
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import WorkloadSpec


def spec(**changes: Any) -> WorkloadSpec:
    """Return a small shared-prefix workload with ``changes``."""
    data: dict[str, Any] = {
        "name": "w",
        "prompt": {"kind": "shared_prefix", "shared_tokens": 60, "unique_tokens": 20},
        "requests": 6,
        "warmup_requests": 3,
        "output_tokens": 16,
        "seed": 5,
    }
    return WorkloadSpec.model_validate({**data, **changes})


def unique(tokens: int = 40, **changes: Any) -> WorkloadSpec:
    """Return a workload of unique prompts."""
    return spec(prompt={"kind": "unique", "unique_tokens": tokens}, **changes)


def prompts(requests: tuple[PlannedRequest, ...]) -> list[Prompt]:
    """Return what each body asks."""
    bodies = [json.loads(request.body) for request in requests]
    return [body.get("messages", body.get("prompt")) for body in bodies]


def build(workload: WorkloadSpec, counter: FakeCounter | None = None, **options: Any) -> list[Prompt]:
    """Build requests and return their prompts."""
    return prompts(build_requests(workload, model="m", counter=counter or FakeCounter(), **options))


KINDS = {
    "shared_prefix": ({"kind": "shared_prefix", "shared_tokens": 60, "unique_tokens": 20}, 80),
    "unique": ({"kind": "unique", "unique_tokens": 40}, 40),
}
COUNTERS = {
    "known words": FakeCounter(),
    "bytes": FakeCounter(cost=one_a_letter),
    "no system role": FakeCounter(system_role=False),
    "default system prompt": FakeCounter(default_system="you are a helpful assistant"),
    "a quirk": FakeCounter(quirk=2),
}


@pytest.mark.parametrize("counter", COUNTERS.values(), ids=COUNTERS)
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("phase", ["measured", "warmup"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_prompt_has_exactly_the_tokens_asked(
    kind: str, phase: str, endpoint: str, counter: FakeCounter
) -> None:
    prompt, tokens = KINDS[kind]
    workload = spec(prompt=prompt, endpoint=endpoint)
    assert {counter.count(one) for one in build(workload, counter, phase=phase)} == {tokens}


def test_a_large_set_with_a_tokenizer_quirk_is_repaired_prompt_by_prompt() -> None:
    counter = FakeCounter(quirk=3)
    assert {counter.count(one) for one in build(unique(requests=200), counter)} == {40}


def test_a_large_set_is_checked_by_sample() -> None:
    counter = FakeCounter()
    build(unique(requests=5000), counter)
    assert len(set(counter.asked)) < 400


def test_two_builds_with_one_seed_send_the_same_bytes() -> None:
    first = build_requests(spec(), model="m", counter=FakeCounter())
    assert first == build_requests(spec(), model="m", counter=FakeCounter())


def test_another_seed_sends_other_bytes() -> None:
    assert set(map(texts, build(spec()))).isdisjoint(map(texts, build(spec(seed=6))))


def test_repetitions_share_their_prompts_where_caches_are_reset() -> None:
    assert build(spec(), repetition=0) == build(spec(), repetition=1)


def test_repetitions_have_prompts_of_their_own_where_caches_are_not_reset() -> None:
    workload = unique(reset_caches=False)
    assert set(map(texts, build(workload, repetition=0))).isdisjoint(
        map(texts, build(workload, repetition=1))
    )


def test_prompt_ids_are_the_same_in_every_repetition() -> None:
    workload = spec(reset_caches=False)
    ids = [
        [
            one.prompt_id
            for one in build_requests(workload, model="m", counter=FakeCounter(), repetition=number)
        ]
        for number in (0, 1)
    ]
    assert ids[0] == ids[1] == [f"p{index:05d}" for index in range(6)]


def test_shared_prompts_share_their_system_message_and_nothing_else() -> None:
    systems, users = zip(*(texts(one).split("|") for one in build(spec())), strict=True)
    assert len(set(systems)) == 1
    assert len({user.split(" ")[0] for user in users}) == 6


def test_the_common_system_message_has_the_shared_tokens_with_its_part_of_the_template() -> None:
    counter = FakeCounter()
    system = texts(build(spec(), counter)[0]).split("|")[0]
    assert counter.count([{"role": "system", "content": system}], generation_prompt=False) == 60


def test_the_warm_up_does_not_share_the_measured_system_prompt() -> None:
    assert starts(build(spec())).isdisjoint(starts(build(spec(), phase="warmup")))


def test_unique_prompts_differ_from_the_first_word_on() -> None:
    assert len(starts(build(unique(requests=100)))) == 100


def test_unique_prompts_differ_within_their_first_words_when_there_are_more_than_words() -> None:
    found = [" ".join(texts(one).split(" ")[:3]) for one in build(unique(requests=3000))]
    assert len(set(found)) == 3000


def test_the_warm_up_of_unique_prompts_begins_with_other_words() -> None:
    assert starts(build(unique())).isdisjoint(starts(build(unique(), phase="warmup")))


def test_a_template_with_a_default_system_prompt_gets_the_nonce_before_it() -> None:
    counter = FakeCounter(default_system="you are a helpful assistant")
    roles = [message["role"] for message in build(unique(), counter)[0] if not isinstance(message, str)]
    assert roles == ["system", "user"]


def test_text_is_sent_as_it_stands() -> None:
    workload = spec(prompt={"kind": "text", "text": "explain what a KV cache is"})
    assert build(workload)[3] == [{"role": "user", "content": "explain what a KV cache is"}]


def test_the_warm_up_of_text_is_other_text_of_the_same_length() -> None:
    workload = spec(prompt={"kind": "text", "text": "explain what a KV cache is"})
    counter = FakeCounter()
    warm = build(workload, counter, phase="warmup")
    assert {counter.count(one) for one in warm} == {counter.count(build(workload, counter)[0])}
    assert "explain" not in starts(warm)


def test_a_counter_that_runs_prompts_is_never_shown_a_measured_one() -> None:
    counter = FakeCounter(sends_prompts=True)
    measured = build(unique(), counter)
    assert {json.dumps(one) for one in measured}.isdisjoint(counter.asked)


def test_every_sampling_parameter_is_in_the_body() -> None:
    workload = spec(temperature=0.7, top_p=0.9)
    body = json.loads(build_requests(workload, model="served", counter=FakeCounter())[0].body)
    del body["messages"]
    assert body == {
        "model": "served",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 5,
        "max_tokens": 16,
        "ignore_eos": True,
        "min_tokens": 16,
    }


def test_servers_that_are_not_vllm_get_no_parameters_of_vllm() -> None:
    body = json.loads(build_requests(spec(ignore_eos=False), model="m", counter=FakeCounter())[0].body)
    assert "ignore_eos" not in body
    assert "min_tokens" not in body


def test_only_a_pinned_length_is_expected_of_the_answer() -> None:
    lengths = [
        build_requests(spec(ignore_eos=pinned), model="m", counter=FakeCounter())[0].output_tokens
        for pinned in (True, False)
    ]
    assert lengths == [16, None]


def test_h93_a_plan_longer_than_the_context_is_refused_with_its_numbers() -> None:
    with pytest.raises(
        SpecError, match=r"80 tokens plus 16 output tokens is 96, more than .* max_model_len 95"
    ):
        build(spec(), max_model_len=95)


def test_h93_a_plan_that_just_fits_is_built() -> None:
    assert len(build(spec(), max_model_len=96)) == 6


def test_a_prompt_shorter_than_its_template_is_refused() -> None:
    with pytest.raises(SpecError, match="its template alone takes"):
        build(unique(tokens=5))


@pytest.mark.parametrize(
    ("prompt", "missing"),
    [
        ({"kind": "shared_prefix", "unique_tokens": 5}, "shared_tokens"),
        ({"kind": "shared_prefix", "shared_tokens": 5}, "unique_tokens"),
        ({"kind": "unique"}, "unique_tokens"),
        ({"kind": "multi_turn"}, "unique_tokens"),
        ({"kind": "text"}, "text"),
        ({"kind": "jsonl"}, "path"),
        ({"kind": "trace"}, "path"),
    ],
)
def test_a_kind_without_its_length_is_refused_by_name(prompt: dict[str, Any], missing: str) -> None:
    with pytest.raises(SpecError, match=f"needs {missing}"):
        build(spec(prompt=prompt))


def test_a_workload_without_warm_up_has_none() -> None:
    assert build(spec(warmup_requests=0), phase="warmup") == []


def test_the_hash_changes_with_any_byte_and_with_the_order() -> None:
    one, two = PlannedRequest(prompt_id="a", body=b"ab"), PlannedRequest(prompt_id="b", body=b"c")
    moved = (PlannedRequest(prompt_id="a", body=b"a"), PlannedRequest(prompt_id="b", body=b"bc"))
    assert len({prompt_set_hash(pair) for pair in ((one, two), (two, one), moved)}) == 3


def test_open_loops_carry_their_schedule() -> None:
    workload = spec(arrival={"kind": "constant", "rate_per_s": 4})
    offsets = [one.offset_ns for one in build_requests(workload, model="m", counter=FakeCounter())]
    assert offsets == [0, 250_000_000, 500_000_000, 750_000_000, 1_000_000_000, 1_250_000_000]


def test_the_warm_up_of_an_open_loop_has_no_schedule() -> None:
    workload = spec(arrival={"kind": "constant", "rate_per_s": 4})
    warm = build_requests(workload, model="m", counter=FakeCounter(), phase="warmup")
    assert {one.offset_ns for one in warm} == {None}


def conversations(**changes: Any) -> WorkloadSpec:
    """Return 2 conversations of 3 turns, 30 tokens each."""
    return spec(prompt={"kind": "multi_turn", "unique_tokens": 30, "turns": 3}, requests=6, **changes)


def test_each_turn_is_longer_by_the_same_tokens() -> None:
    counter = FakeCounter()
    assert [counter.count(one) for one in build(conversations(), counter)] == [30, 30, 60, 60, 90, 90]


def test_each_turn_begins_with_the_turns_before_it() -> None:
    found = build(conversations())
    assert list(found[4])[: len(found[2])] == found[2]
    assert list(found[2])[: len(found[0])] == found[0]


def test_turns_wait_for_the_turn_before_them() -> None:
    requests = build_requests(conversations(), model="m", counter=FakeCounter())
    assert [one.after for one in requests] == [None, None, "p00000", "p00001", "p00002", "p00003"]


def test_the_last_conversation_may_be_shorter() -> None:
    workload = conversations().model_copy(update={"requests": 5})
    assert [one.after for one in build_requests(workload, model="m", counter=FakeCounter())] == [
        None,
        None,
        "p00000",
        "p00001",
        "p00002",
    ]


def test_conversations_need_chat() -> None:
    with pytest.raises(SpecError, match="needs endpoint 'chat'"):
        build(conversations(endpoint="completions"))
