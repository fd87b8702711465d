# SPDX-License-Identifier: Apache-2.0
"""A change of 10 % on one metric: found, named and explained; no change: quiet."""

import re
import subprocess
from dataclasses import dataclass

import pytest

from tests.plugin.projects import Finished, Project
from vllm_perf.history.floors import floor_hardware, learn_floors
from vllm_perf.history.store import load_file
from vllm_perf.spec.history import IdentitySpec

ASKED = ("--benchmark-compare",)


def steady(project: Project) -> None:
    """Give the engine long times and the load 40 requests one after the other, 25 ms apart.

    Requests sent all at once share every stall of a busy machine: one of 50 ms is a change of 10 % to all of
    them. Spread out, it hits the few whose tokens are due just then, which the outer tenths left out take.
    """
    project.engines("ttft-ms = 100, itl-ms = 15", "ttft-ms = 200, itl-ms = 50")
    for before, after in (
        ('kind = "closed", concurrency = 8', 'kind = "constant", rate_per_s = 40'),
        ("requests = 8\nrepetitions = 3", "requests = 40\nrepetitions = 1"),
    ):
        project.change("fixtures/workloads.toml", before, after)


def learn(project: Project) -> None:
    """Teach the history that boots differ by 1.5 %, as a dozen A/A pairs would; in throughput by 5 %.

    One boot against one is otherwise held against an assumed spread of boots, which 10 % only just exceeds.
    One stall at the end of the load is all that throughput needs to waver, and is not what this is about.
    """
    head = load_file(next((project.root / ".vllm-perf/history").glob("*.json")))
    where = floor_hardware(head.cells[0].environment, IdentitySpec())
    pairs = dict.fromkeys(("ttft_p50", "ttft_p95", "tpot_p50"), [0.015, -0.015] * 6)
    pairs["output_throughput"] = [0.05, -0.05] * 6
    learn_floors(project.root / ".vllm-perf/history", where, "chat", pairs)


def git(project: Project, *words: str) -> str:
    """Run git in the project."""
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", *who, *words], cwd=project.root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(project: Project, message: str) -> str:
    """Commit everything and return the commit."""
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", message)
    return git(project, "rev-parse", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One engine over five runs: measured, unchanged, first tokens 10 % later, once more, 10 % earlier."""

    commits: list[str]
    unchanged: Finished
    slower: Finished
    slower_again: Finished
    faster: Finished
    statuses: list[str]
    base_id: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Live through it, in a repository of its own."""
    project = Project(tmp_path_factory.mktemp("story") / "project")
    project.engines('engines = ["first", "middle", "last"]', 'engines = ["last"]')
    steady(project)
    project.write(".gitignore", ".vllm-perf/\n.benchmarks/\nstate/\n*.xml\n__pycache__/\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    commits = [commit(project, "as it was")]
    first = project.run(*ASKED)
    assert first.code == 0, first.text
    learn(project)
    unchanged = project.run(*ASKED)
    project.engines("ttft-ms = 200", "ttft-ms = 220")
    commits.append(commit(project, "slower"))
    slower = project.run(*ASKED)
    slower_again = project.run(*ASKED)
    project.engines("ttft-ms = 220", "ttft-ms = 180")
    commits.append(commit(project, "faster"))
    faster = project.run(*ASKED)
    key = "ttft_p50[last-chat]"
    return Story(
        commits=commits,
        unchanged=unchanged,
        slower=slower,
        slower_again=slower_again,
        faster=faster,
        statuses=[
            next(row for row in record["benchmarks"] if row["name"] == key)["extra_info"]["status"]
            for record in project.records()
        ],
        base_id=project.record_ids()[1],
    )


def test_no_change_is_quiet(story: Story) -> None:
    assert story.unchanged.code == 0, story.unchanged.text
    assert "regressed" not in story.unchanged.text
    assert "improved" not in story.unchanged.text


def test_a_first_token_10_percent_later_fails_exactly_its_tests(story: Story) -> None:
    assert story.slower.code == 1, story.slower.text
    assert story.slower.metrics("failed") <= {"ttft_p50", "ttft_p95"}
    assert "ttft_p50" in story.slower.metrics("failed")


def test_the_failed_test_says_what_a_reader_needs(story: Story) -> None:
    said = story.slower.failures["test_first_token_comes_in_time[last:chat:ttft_p50]"]
    assert "ttft_p50[last-chat] regressed" in said
    assert re.search(r"ttft_p50 2\d\d\.\d -> 2\d\d\.\d ms: \+\d+\.\d % \(95 % interval", said)
    assert re.search(r"allowed \d\.\d % \(\w+.*\), noise floor \d\.\d %", said)
    assert "what moved: prefill" in said
    assert "ttft-ms" in said.split("what differs:")[1]
    assert f"commits: {story.commits[0][:9]}..{story.commits[1][:9]}" in said
    again = "pytest tests/perf --benchmark-compare --perf-golden --perf-engine last --perf-workload chat"
    assert f"{again} --perf-baseline {story.base_id}" in said


def test_the_second_run_of_a_slow_commit_fails_as_well(story: Story) -> None:
    assert story.slower_again.code == 1, story.slower_again.text
    assert "ttft_p50" in story.slower_again.metrics("failed")


def test_a_regressed_series_is_kept_as_such(story: Story) -> None:
    assert story.statuses == ["ok", "ok", "regressed", "regressed", "ok"]


def test_a_first_token_10_percent_earlier_is_reported_and_passes(story: Story) -> None:
    assert story.faster.code == 0, story.faster.text
    assert "improved" in story.faster.text
    assert "regressed" not in story.faster.text


def test_a_slower_pace_fails_exactly_its_test(project: Project) -> None:
    steady(project)
    few = (*ASKED, "-k", "ttft_p50 or tpot_p50 or output_throughput")
    assert project.run(*few).code == 0
    learn(project)
    project.engines("itl-ms = 50", "itl-ms = 55")
    run = project.run(*few)
    assert run.code == 1, run.text
    assert run.metrics("failed") == {"tpot_p50"}
    assert "what moved: decode" in run.failures["test_answer_flows_and_ends_in_time[last:chat:tpot_p50]"]


def test_fail_on_never_reports_and_passes(project: Project) -> None:
    few = (*ASKED, "-k", "ttft_p50")
    assert project.run(*few).code == 0
    project.engines("ttft-ms = 100", "ttft-ms = 130")
    run = project.run(*few, "--perf-fail-on", "never")
    assert run.code == 0, run.text
    assert "regressed" in run.text


def test_benchmark_compare_fail_fails_the_test_it_is_about(project: Project) -> None:
    few = ("--benchmark-compare", "-k", "ttft_p50 or tpot_p50")
    assert project.run(*few).code == 0
    project.engines("ttft-ms = 100", "ttft-ms = 130")
    run = project.run(*few, "--benchmark-compare-fail=median:15%", "--perf-allowed-change", "0.5")
    assert run.code == 1, run.text
    assert run.metrics("failed") == {"ttft_p50"}
    said = run.failures["test_first_token_comes_in_time[last:chat:ttft_p50]"]
    assert "--benchmark-compare-fail: ttft_p50[last-chat]: Field 'median' has failed" in said
    assert "Traceback" not in run.text
    assert "1 failed, 1 passed" in run.text
