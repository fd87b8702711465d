# SPDX-License-Identifier: Apache-2.0
"""The gate through pytest: one test per gating metric, the command's exit codes, nothing else measured."""

import signal
import time
from pathlib import Path

import pytest

from tests.plugin.projects import PATIENCE_S, Project

# The slower side is five times as slow: no load on this machine makes the two change places.
ENGINES = """
[ladders.golden]
platform = "golden"
engines = ["quick", "slow"]

[engines.quick]
platform = "golden"
model = "golden"
flags = { ttft-ms = 40, itl-ms = 10 }
boot_timeout_s = 20

[engines.slow]
extends = "quick"
flags = { ttft-ms = 200 }

[engines.broken]
extends = "quick"
flags = { ttft-msec = 40 }
"""
FEW = ("--perf-gate-min-pairs", "2", "--perf-gate-max-pairs", "2")


@pytest.fixture
def sides(tmp_path: Path) -> Project:
    """Return a project with a quick, a slow and a broken engine."""
    made = Project(tmp_path / "project")
    made.write("fixtures/engines.toml", ENGINES)
    made.change("fixtures/workloads.toml", "repetitions = 3", "repetitions = 1")
    return made


def gate_boots(project: Project) -> list[str]:
    """Return the side of every boot (each has a log of its own)."""
    return sorted(path.parent.name for path in (project.root / ".vllm-perf/logs").glob("*/*.log"))


def test_a_slower_head_fails_the_tests_of_what_got_slower(sides: Project) -> None:
    run = sides.run("--perf-gate", "quick..slow", *FEW, "--perf-markdown", "summary.md")
    assert run.code == 1, run.text
    assert "test_head_is_no_slower_than_base[chat:ttft_p50]" in run.ended("failed")
    assert set(run.cases) == {
        f"test_head_is_no_slower_than_base[chat:{metric}]"
        for metric in ("ttft_p50", "ttft_p95", "tpot_p50", "output_throughput")
    }
    said = run.failures["test_head_is_no_slower_than_base[chat:ttft_p50]"]
    assert "ttft_p50 under chat: regressed: ttft_p50 " in said
    assert "what moved: prefill" in said
    assert "what differs: " in said
    assert "ttft-ms" in said
    assert "again: pytest tests/perf --perf-golden" in said
    assert (sides.root / "summary.md").read_text().startswith("## ❌ Head is slower than base")
    assert "Head is slower than base: chat: ttft_p50" in run.text
    assert gate_boots(sides) == ["base"] * 3 + ["head"] * 3


def test_a_percentile_of_too_few_requests_is_skipped_with_the_reason(sides: Project) -> None:
    run = sides.run("--perf-gate=@first..quick", *FEW, "--perf-allowed-change", "9", "-rs")
    assert run.code == 0, run.text
    assert run.ended("skipped") == {"test_head_is_no_slower_than_base[chat:ttft_p95]"}
    assert "ttft_p95 needs 90 requests a side, 16 were sent" in run.text
    assert run.metrics("passed") == {"ttft_p50", "tpot_p50", "output_throughput"}


def test_what_the_pairs_do_not_decide_is_no_verdict(sides: Project) -> None:
    run = sides.run("--perf-gate", "quick..slow", "--perf-gate-max-minutes", "1e-9")
    assert run.code == 10, run.text
    assert len(run.ended("failed")) == 4
    assert "0 of at least 3 pairs measured" in next(iter(run.failures.values()))
    assert gate_boots(sides) == []


def test_a_side_that_does_not_boot_is_a_broken_lab_and_tried_once(sides: Project) -> None:
    run = sides.run("--perf-gate", "quick..broken", *FEW)
    assert run.code == 11, run.text
    assert len(run.ended("failed")) == 4
    assert "ttft-msec" in next(iter(run.failures.values()))
    assert gate_boots(sides) == ["base", "head"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--perf-gate", "quick"), "'quick' is not two engines as BASE..HEAD"),
        (("--perf-gate", "quick..slwo"), "did you mean 'slow'"),
        (("--perf-gate", "quick..slow", "--perf-gate-min-pairs", "1"), "--min-pairs: at least 2"),
        (("--perf-gate", "quick..slow", "--perf-gate-max-pairs", "x"), "'x' is not a number"),
        (("--perf-gate", "quick..slow", "--perf-engine", "slow"), "exclude each other"),
        (("--perf-gate", "quick..slow", "-n", "2"), "run it without -n"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(sides: Project, words: tuple[str, ...], said: str) -> None:
    run = sides.run(*words)
    assert run.code == 4, run.text
    assert said in run.text
    assert gate_boots(sides) == []


def test_killed_and_started_again_it_measures_only_what_is_missing(sides: Project) -> None:
    words = ("tests/perf", "--perf-golden", "--perf-gate", "quick..slow", *FEW)
    process = sides.start(*words)
    journal = sides.root / ".vllm-perf" / "gate"
    deadline = time.monotonic() + PATIENCE_S
    try:
        while _boots_in(journal) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.poll() is None, process.communicate()[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    kept = _boots_in(journal)
    assert kept >= 3
    run = sides.run("--perf-gate", "quick..slow", *FEW)
    assert run.code == 1, run.text
    assert f"going on with {kept} boots measured before" in run.text
    assert f"{kept} boots taken over" in run.text


def _boots_in(folder: Path) -> int:
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    return sum(line.startswith(b'{"boot":') for line in lines)
