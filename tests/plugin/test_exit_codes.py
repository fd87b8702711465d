# SPDX-License-Identifier: Apache-2.0
"""Exit codes, and what JUnit and the summary line say beside them."""

import time

import pytest

from tests.plugin.conftest import TwoRuns
from tests.plugin.projects import Finished, Project
from tests.plugin.servers import foreign_traffic, golden_process
from vllm_perf.pytest_plugin.controller import exit_code

DEAD = ("--perf-base-url", "http://127.0.0.1:9/v1", "--perf-model", "x")


def test_all_passed_is_0(two_runs: TwoRuns) -> None:
    run = two_runs.alone
    assert run.code == 0, run.text
    assert run.counts == {"tests": 37, "failures": 0, "errors": 0, "skipped": 0}


def test_a_missed_budget_is_1_and_fails_that_metrics_test_alone(project: Project) -> None:
    project.change("fixtures/budgets/cpu.toml", "max = 250", "max = 50")
    run = project.run()
    assert run.code == 1, run.text
    assert run.ended("failed") == {"test_first_token_comes_in_time[last:chat:ttft_p50]"}
    assert "at most 50 is allowed" in run.junit
    assert "1 failed" in run.text.splitlines()[-2] + run.text.splitlines()[-1]


def test_too_few_requests_for_an_asserted_percentile_are_10(project: Project) -> None:
    project.change("fixtures/budgets/cpu.toml", '"ttft_p50"', '"ttft_p95"')
    run = project.run()
    assert run.code == 10, run.text
    assert "ttft_p95 needs 90 requests to be asserted, 24 were sent" in run.text
    assert_no_verdict(run)


def test_a_hit_rate_outside_its_band_is_10(project: Project) -> None:
    project.change("fixtures/workloads.toml", "output_tokens", "hit_rate_min = 0.99\noutput_tokens")
    run = project.run()
    assert run.code == 10, run.text
    assert "the workload expects 99% to 100%" in run.text
    assert_no_verdict(run)


def test_foreign_traffic_is_10(project: Project) -> None:
    with golden_process(ttft_ms=30, itl_ms=10) as target, foreign_traffic(target):
        where = ("--perf-base-url", target.base_url, "--perf-model", target.model)
        run = project.run(*where, golden=False)
    assert run.code == 10, run.text
    assert "someone else uses this server" in run.text
    assert_no_verdict(run)


def assert_no_verdict(run: Finished) -> None:
    """Check that only the boot passed, and that nothing else is shown as a pass or lost from JUnit."""
    assert run.metrics("passed") == {"boot_time"}
    failures = run.counts["failures"]
    assert failures == run.counts["tests"] - 1
    assert f"{failures} no verdict" in run.text.splitlines()[-1] + run.text.splitlines()[-2]


def test_a_server_that_nobody_runs_is_11_within_seconds(project: Project) -> None:
    started = time.monotonic()
    run = project.run_apart(*DEAD, golden=False)
    assert time.monotonic() - started < 30
    assert run.code == 11, run.text
    assert run.ended("passed") == set()
    assert run.counts["failures"] == run.counts["tests"] == 12
    assert "nothing accepts connections at 127.0.0.1:9" in run.text
    assert "start the server" in run.junit
    assert "12 lab broken" in run.text


def test_a_server_that_answers_401_to_everything_is_11(project: Project) -> None:
    with golden_process(api_key="right") as target:
        run = project.run("--perf-base-url", target.base_url, "--perf-model", target.model, golden=False)
    assert run.code == 11, run.text
    assert run.ended("passed") == set()
    assert run.counts["failures"] == run.counts["tests"] == 12
    assert "AUTH_WRONG_OR_MISSING_KEY" in run.text
    assert "do: " in run.junit


def test_h81_an_engine_that_does_not_boot_is_11_and_is_booted_once(ladder: Project) -> None:
    ladder.engines("flags = { prefix-caching = true }", "flags = { no-such-flag = 1 }")
    ladder.engines('[engines.last]\nextends = "middle"', '[engines.last]\nextends = "first"')
    run = ladder.run("-k", "not gains")
    assert run.code == 11, run.text
    assert ladder.boots() == ["first", "last", "middle"]
    broken = run.ended("failed")
    assert broken == {name for name in run.cases if "[middle:" in name}
    assert len(broken) == 12
    assert run.failures.keys() == broken
    assert len(set(run.failures.values())) == 1
    assert "engine 'middle' did not boot" in run.failures[min(broken)]


def test_a_model_that_takes_too_short_prompts_is_11_and_no_traceback(project: Project) -> None:
    project.engines("ttft-ms = 100,", "ttft-ms = 100, max-model-len = 40,")
    run = project.run("-k", "ttft_p50")
    assert run.code == 11, run.text
    assert "max_model_len" in run.text
    assert "Traceback" not in run.text


@pytest.mark.parametrize(
    ("kinds", "other", "code"),
    [
        (["passed"], 0, 0),
        (["passed", "no verdict"], 0, 10),
        (["no verdict", "lab broken"], 0, 11),
        (["failed", "lab broken", "no verdict"], 0, 1),
        (["lab broken"], 1, 1),
    ],
)
def test_the_gravest_ending_decides(kinds: list[str], other: int, code: int) -> None:
    assert exit_code(kinds, other, otherwise=0) == code
