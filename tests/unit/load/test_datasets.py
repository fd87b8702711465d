# SPDX-License-Identifier: Apache-2.0
"""The user's own prompts, in every format."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.load.tokenizers import FakeCounter, starts
from vllm_perf.load.datasets import read_prompts
from vllm_perf.load.prompts import build_requests
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import WorkloadSpec

SHAREGPT = {
    "id": "1",
    "conversations": [
        {"from": "system", "value": "be brief"},
        {"from": "human", "value": "why is it slow"},
        {"from": "gpt", "value": "no cache"},
        {"from": "human", "value": "and now"},
    ],
}
OPENAI = {"messages": [{"role": "user", "content": "hello there"}, {"role": "assistant", "content": "hi"}]}
BATCH = {"custom_id": "r1", "url": "/v1/chat/completions", "body": {"model": "x", **OPENAI}}
PLAIN = {"prompt": "once upon a time"}


def written(tmp_path: Path, *records: Any) -> Path:
    """Write records as JSONL."""
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n\n")
    return path


def spec(path: Path, **changes: Any) -> WorkloadSpec:
    """Return a workload of the prompts in ``path``."""
    data = {"name": "own", "prompt": {"kind": "jsonl", "path": str(path)}, "requests": 3, "output_tokens": 4}
    return WorkloadSpec.model_validate({**data, **changes})


def bodies(workload: WorkloadSpec, **options: Any) -> list[Any]:
    """Return the bodies of a workload's requests."""
    built = build_requests(workload, model="m", counter=FakeCounter(), **options)
    return [json.loads(request.body) for request in built]


def test_sharegpt_gives_its_system_message_and_first_question(tmp_path: Path) -> None:
    assert read_prompts(written(tmp_path, SHAREGPT)) == [
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": "why is it slow"}]
    ]


def test_a_sharegpt_file_may_be_one_json_list(tmp_path: Path) -> None:
    path = tmp_path / "sharegpt.json"
    path.write_text(json.dumps([SHAREGPT, SHAREGPT], indent=1))
    assert len(read_prompts(path)) == 2


@pytest.mark.parametrize("record", [OPENAI, BATCH], ids=["messages", "batch"])
def test_openai_messages_lose_the_answer_at_their_end(tmp_path: Path, record: Any) -> None:
    assert read_prompts(written(tmp_path, record)) == [[{"role": "user", "content": "hello there"}]]


def test_a_plain_prompt_becomes_a_user_message(tmp_path: Path) -> None:
    assert bodies(spec(written(tmp_path, PLAIN)))[0]["messages"] == [
        {"role": "user", "content": "once upon a time"}
    ]


def test_a_plain_prompt_goes_to_text_completions_as_it_stands(tmp_path: Path) -> None:
    assert bodies(spec(written(tmp_path, PLAIN), endpoint="completions"))[0]["prompt"] == "once upon a time"


def test_conversations_do_not_fit_text_completions(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="needs 'prompt' strings"):
        bodies(spec(written(tmp_path, SHAREGPT), endpoint="completions"))


def test_prompts_come_in_the_files_order_and_from_its_start_again(tmp_path: Path) -> None:
    built = bodies(spec(written(tmp_path, PLAIN, OPENAI)))
    assert [body["messages"][-1]["content"] for body in built] == [
        "once upon a time",
        "hello there",
        "once upon a time",
    ]


def test_lengths_are_counted(tmp_path: Path) -> None:
    built = build_requests(spec(written(tmp_path, PLAIN)), model="m", counter=FakeCounter())
    # Four words, 2 for the message, 1 for <s>, 1 for the generation prompt.
    assert built[0].prompt_tokens == 8


def test_a_prompt_that_does_not_fit_the_context_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is 12, more than"):
        bodies(spec(written(tmp_path, PLAIN)), max_model_len=11)


def test_the_warm_up_is_other_text_of_the_same_lengths(tmp_path: Path) -> None:
    workload = spec(written(tmp_path, PLAIN), warmup_requests=2)
    warm = [body["messages"] for body in bodies(workload, phase="warmup")]
    assert "once" not in starts(warm)
    assert [FakeCounter().count(messages) for messages in warm] == [8, 8]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no prompt"),
        ('{"prompt": "a"}\n{broken\n', "line 2: not JSON"),
        ('[{"prompt": "a"}, ', "not JSON"),
        ('{"question": "a"}\n', "record 1: holds neither"),
        ('"a"\n', "record 1: holds neither"),
        ('{"conversations": [{"from": "gpt", "value": "a"}]}\n', "holds no human turn"),
        ('{"conversations": [{"from": "robot", "value": "a"}]}\n', "a ShareGPT turn needs"),
        ('{"messages": [{"role": "assistant", "content": "a"}]}\n', "asks for an answer"),
    ],
)
def test_a_file_that_is_no_data_set_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(SpecError, match=said):
        read_prompts(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.jsonl: cannot be read"):
        read_prompts(tmp_path / "none.jsonl")
