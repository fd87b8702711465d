# SPDX-License-Identifier: Apache-2.0
"""Replay of a Mooncake trace."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.load.tokenizers import FakeCounter, texts
from vllm_perf.load.prompts import build_requests
from vllm_perf.load.trace import read_trace
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import WorkloadSpec

LINES = [
    {"timestamp": 3000, "input_length": 700, "output_length": 30, "hash_ids": [1, 3]},
    {"timestamp": 1000, "input_length": 600, "output_length": 10, "hash_ids": [1, 2]},
    {"timestamp": 1500, "input_length": 512, "output_length": 20, "hash_ids": [9]},
]


def spec(tmp_path: Path, lines: list[dict[str, Any]] | None = None, **changes: Any) -> WorkloadSpec:
    """Return a workload that replays ``lines``."""
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines or LINES))
    data = {"name": "t", "prompt": {"kind": "trace", "path": str(path)}, "requests": 3}
    return WorkloadSpec.model_validate({**data, **changes})


def contents(workload: WorkloadSpec, **options: Any) -> list[str]:
    """Return the text of every prompt."""
    built = build_requests(workload, model="m", counter=FakeCounter(), **options)
    return [texts(json.loads(request.body)["messages"]) for request in built]


def test_requests_come_at_the_traces_times_from_its_first_on(tmp_path: Path) -> None:
    built = build_requests(spec(tmp_path), model="m", counter=FakeCounter())
    assert [one.offset_ns for one in built] == [0, 500_000_000, 2_000_000_000]


def test_lengths_in_and_out_are_the_traces(tmp_path: Path) -> None:
    built = build_requests(spec(tmp_path), model="m", counter=FakeCounter())
    assert [(one.prompt_tokens, one.output_tokens) for one in built] == [(600, 10), (512, 20), (700, 30)]
    counted = [FakeCounter().count(json.loads(one.body)["messages"]) for one in built]
    assert counted == [600, 512, 700]
    assert [json.loads(one.body)["max_tokens"] for one in built] == [10, 20, 30]


def test_equal_hash_ids_give_equal_text_and_others_do_not(tmp_path: Path) -> None:
    first, other, second = contents(spec(tmp_path))
    # The template takes 4 of the first block's 512 tokens.
    assert first.split(" ")[:508] == second.split(" ")[:508]
    assert first.split(" ")[508:596] != second.split(" ")[508:596]
    assert first.split(" ")[:508] != other.split(" ")[:508]


def test_every_block_after_the_first_is_whole(tmp_path: Path) -> None:
    ids = {"output_length": 4, "hash_ids": [1, 2, 3]}
    lines = [{"timestamp": 0, "input_length": 1024, **ids}, {"timestamp": 1, "input_length": 1100, **ids}]
    short, long = contents(spec(tmp_path, lines, requests=2))
    assert len(short.split(" ")) == 1020
    assert long.split(" ")[:1020] == short.split(" ")


def test_the_warm_up_shares_no_block_and_has_no_schedule(tmp_path: Path) -> None:
    workload = spec(tmp_path, warmup_requests=2)
    warm = build_requests(workload, model="m", counter=FakeCounter(), phase="warmup")
    assert [one.offset_ns for one in warm] == [None, None]
    assert set(contents(workload, phase="warmup")).isdisjoint(contents(workload))


def test_only_as_many_lines_are_replayed_as_asked(tmp_path: Path) -> None:
    assert len(contents(spec(tmp_path, requests=2))) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"timestamp": 1, "input_length": 5, "output_length": 5}, "line 1: a trace line needs"),
        ({"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [1]}, "need 2 hash ids"),
        ({"timestamp": 1, "input_length": 6, "output_length": 0, "hash_ids": [1]}, "output of 1 or more"),
        ({"timestamp": 1, "input_length": 0, "output_length": 1, "hash_ids": []}, "0 tokens"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_with_its_place(
    tmp_path: Path, line: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        contents(spec(tmp_path, [line]))


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("\n")
    with pytest.raises(SpecError, match="holds no request"):
        read_trace(path)
