# SPDX-License-Identifier: Apache-2.0
"""Unequal work is named."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.verdict.making import WORK
from vllm_perf.verdict.side import Work
from vllm_perf.verdict.work import WorkKind, differences


def _kinds(**changes: Any) -> list[WorkKind]:
    return [one.kind for one in differences([WORK], [replace(WORK, **changes)])]


def _without(work: Work, field: str) -> Work:
    unknown: dict[str, Any] = {field: None}
    return replace(work, **unknown)


def test_equal_work_has_no_difference() -> None:
    assert _kinds() == []


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"prompt_set_hash": "b"}, WorkKind.PROMPTS),
        ({"prompt_tokens": 515}, WorkKind.PROMPT_TOKENS),
        ({"output_tokens": 60}, WorkKind.OUTPUT_TOKENS),
        ({"finish": {"length": 0.99, "stop": 0.01}}, WorkKind.FINISH_REASONS),
        ({"failed": 1}, WorkKind.FAILURES),
        ({"hit_rate": 0.87}, WorkKind.CACHE_HITS),
        ({"preemptions": 2}, WorkKind.PREEMPTIONS),
    ],
)
def test_each_part_of_the_work_that_differs_is_named(changes: dict[str, Any], kind: WorkKind) -> None:
    known = replace(WORK, prompt_set_hash="a", hit_rate=0.9, preemptions=0)
    assert kind in [one.kind for one in differences([known], [replace(known, **changes)])]


@pytest.mark.parametrize(
    "changes",
    [{"prompt_tokens": 514}, {"output_tokens": 64.3}, {"hit_rate": 0.881}, {"preemptions": 1}],
)
def test_rounding_is_no_difference(changes: dict[str, Any]) -> None:
    known = replace(WORK, hit_rate=0.9, preemptions=0)
    assert differences([known], [replace(known, **changes)]) == ()


@pytest.mark.parametrize("field", ["prompt_tokens", "output_tokens", "hit_rate", "preemptions"])
def test_what_one_side_does_not_know_is_not_compared(field: str) -> None:
    known = replace(WORK, hit_rate=0.9, preemptions=0)
    assert differences([known], [_without(known, field)]) == ()


def test_the_sentence_holds_both_numbers() -> None:
    (found,) = differences([replace(WORK, hit_rate=0.959)], [replace(WORK, hit_rate=0.0)])
    assert found.sentence == "prefix cache hit rate 95.9% -> 0.0%"


def test_work_is_taken_over_all_boots_of_a_side() -> None:
    assert differences([WORK, replace(WORK, failed=1)], [replace(WORK, failed=1), WORK]) == ()
