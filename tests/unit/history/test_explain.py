# SPDX-License-Identifier: Apache-2.0
"""A regression is explained: numbers, stage, differences, commits and the command to see it again."""

from dataclasses import replace

import pytest

from tests.unit.history.synthetic import Truth, made_up
from tests.unit.history.test_compare import BASE, SLOWER, compared
from vllm_perf.history.explain import command, commits, explain
from vllm_perf.history.git import Suite
from vllm_perf.history.record import SeriesKey

A, B = Suite(commit="a" * 40), Suite(commit="b" * 40)


def test_the_paragraph_says_everything_a_reader_needs() -> None:
    base = replace(BASE, suite=A)
    head = replace(made_up("head", Truth(seed=2, slower="fp8", ttft=1.4), vllm="0.33.0"), suite=B)
    one = compared(head, base).of(SLOWER)
    assert one is not None
    lines = explain(one, base, head).splitlines()
    assert lines[0].startswith("ttft_p50[fp8-chat] regressed: ttft_p50 205.8 -> 296.5 ms: +41.4 %")
    assert "interval" in lines[0]
    assert "noise floor" in lines[0]
    assert lines[1].startswith("  what moved: prefill 200 → 286 ms")
    assert lines[2] == "  what differs: software.vllm_version: 0.32.0 → 0.33.0"
    assert lines[3].startswith("  baseline: run base (aaaaaaaaa")
    assert lines[4] == "  commits: aaaaaaaaa..bbbbbbbbb (git log --oneline aaaaaaaaa..bbbbbbbbb)"
    assert lines[5] == (
        "  again: pytest tests/perf --benchmark-compare --perf-engine fp8"
        " --perf-workload chat --perf-baseline base"
    )


@pytest.mark.parametrize(
    ("base", "head", "told"),
    [
        (A, A, "both at aaaaaaaaa"),
        (Suite(), Suite(), "both at no commit"),
        (Suite(), B, "no commit to bbbbbbbbb"),
        (
            A,
            replace(A, dirty=True),
            "aaaaaaaaa..aaaaaaaaa with uncommitted changes (git log --oneline aaaaaaaaa..aaaaaaaaa)",
        ),
    ],
)
def test_commits_are_told_whatever_the_state_of_the_tree(base: Suite, head: Suite, told: str) -> None:
    assert commits(base, head) == told


def test_the_command_measures_the_same_server_again() -> None:
    asked = "pytest tests/perf --perf-golden -k tpot --perf-history=old --perf-ladder small"
    words = command(SeriesKey("fp8", "chat", "ttft_p50"), "base", asked)
    chosen = ["--perf-golden", "--perf-history", "old", "--perf-ladder", "small"]
    end = ["--perf-engine", "fp8", "--perf-workload", "chat", "--perf-baseline", "base"]
    assert words == ["pytest", "tests/perf", "--benchmark-compare", *chosen, *end]


def test_a_server_of_others_has_no_engine_and_a_boot_no_workload() -> None:
    asked = "pytest tests/perf --perf-base-url http://a/v1 --perf-model m"
    words = command(SeriesKey("external", "boot", "boot_time"), "base", asked)
    assert words[3:] == ["--perf-base-url", "http://a/v1", "--perf-model", "m", "--perf-baseline", "base"]
