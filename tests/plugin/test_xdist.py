# SPDX-License-Identifier: Apache-2.0
"""On several of xdist's workers: the same series, rows, comparison and exit codes as alone."""

from tests.plugin.conftest import TwoRuns
from tests.plugin.projects import Project, rows

SPREAD = ("-n", "2")
CRASH = """
import os
import pytest

@pytest.mark.perf_metrics("ttft_p50")
def test_crash(perf):
    perf.check()
    os._exit(0)
"""
STOCK = """
def test_a(worker_id): pass
def test_b(worker_id): pass
"""


def test_it_passes_as_it_does_alone(two_runs: TwoRuns) -> None:
    assert two_runs.spread.code == 0, two_runs.spread.text
    assert two_runs.spread.cases == two_runs.alone.cases


def test_three_engines_boot_three_times(two_runs: TwoRuns) -> None:
    assert two_runs.spread_boots == ["first", "last", "middle"]


def test_both_workers_had_tests(two_runs: TwoRuns) -> None:
    assert "[gw0] " in two_runs.spread.text
    assert "[gw1] " in two_runs.spread.text


def test_h82_the_second_worker_waits_and_says_so(two_runs: TwoRuns) -> None:
    assert "vllm-perf: waiting for cpu" in two_runs.spread.text


def test_the_record_holds_the_same_series(two_runs: TwoRuns) -> None:
    alone, spread = two_runs.project.records()
    assert set(rows(spread)) == set(rows(alone))


def test_h83_the_saved_rows_are_the_same_where_pytest_benchmark_switches_itself_off(
    two_runs: TwoRuns,
) -> None:
    alone, spread = two_runs.project.saved()
    assert set(rows(spread)) == set(rows(alone))


def test_it_is_compared_with_the_run_before(two_runs: TwoRuns) -> None:
    assert "baseline created" not in two_runs.spread.text
    assert "Against the baseline" in two_runs.spread.text


def test_the_gain_over_another_workers_engine_is_judged(two_runs: TwoRuns) -> None:
    name = "test_last_rung_gains_over_the_first[ladder:last:chat:output_throughput]"
    assert two_runs.spread.cases[name] == "passed"


def test_no_verdict_is_10_as_alone(ladder: Project) -> None:
    ladder.change("fixtures/workloads.toml", "output_tokens", "hit_rate_min = 0.99\noutput_tokens")
    few = ("-p", "no:benchmark", "-k", "ttft_p50 and not middle")
    run, alone = ladder.run(*SPREAD, *few), ladder.run(*few)
    assert run.code == alone.code == 10, run.text
    assert run.metrics("failed") == {"ttft_p50"}
    assert run.cases == alone.cases


def test_a_broken_lab_is_11_as_alone(ladder: Project) -> None:
    ladder.engines("itl-ms = 15 }", "itl-ms = 15, no-such-flag = 1 }")
    few = ("-p", "no:benchmark", "-k", "boot and not middle")
    run = ladder.run(*SPREAD, *few)
    assert run.code == 11, run.text
    assert "engine 'last' did not boot" in run.text
    assert ladder.boots() == ["first", "last"]
    alone = ladder.run(*few)
    assert (alone.code, alone.cases) == (run.code, run.cases)


def test_a_regression_is_1_and_fails_the_same_test_as_alone(ladder: Project) -> None:
    few = ("--benchmark-compare", "-k", "ttft_p50 and not middle")
    assert ladder.run(*few).code == 0
    ladder.engines("ttft-ms = 100", "ttft-ms = 150")
    run = ladder.run(*SPREAD, *few)
    assert run.code == 1, run.text
    name = "test_first_token_comes_in_time[last:chat:ttft_p50]"
    assert run.ended("failed") == {name}
    assert "what moved: prefill" in run.failures[name]
    statuses = [rows(record)["ttft_p50[last-chat]"]["extra_info"]["status"] for record in ladder.records()]
    assert statuses == ["ok", "regressed"]
    alone = ladder.run(*few)
    assert (alone.code, alone.cases) == (run.code, run.cases)


def test_a_crashed_worker_is_not_green_and_leaves_no_engine(ladder: Project) -> None:
    ladder.write("tests/perf/test_crash.py", CRASH)
    run = ladder.run(*SPREAD, "-k", "[first: and (crash or ttft_p50) or [last:chat:ttft_p50] and not crash")
    assert run.code == 1, run.text
    assert "crashed while running" in run.text
    assert "test_first_token_comes_in_time[last:chat:ttft_p50]" in run.ended("passed")
    assert list((ladder.root / "state/live").iterdir()) == []


def test_dist_each_is_refused_where_it_would_measure_twice(project: Project) -> None:
    run = project.run("-n", "1", "--dist", "each", "-k", "ttft_p50")
    assert run.code == 4, run.text
    assert "--dist each would measure everything once a worker" in run.text
    assert project.boots() == []


def test_an_unknown_name_is_a_usage_error_on_workers_too(project: Project) -> None:
    run = project.run("-n", "1", "--perf-engine", "lst")
    assert run.code == 4, run.text
    assert "did you mean 'last'?" in run.text
    assert "INTERNALERROR" not in run.text


def test_other_tests_are_scheduled_by_xdist_itself(project: Project) -> None:
    project.write("tests/other/test_other.py", STOCK)
    run = project.run(*SPREAD, "--dist", "each", "-v", paths=("tests/other",))
    assert run.code == 0, run.text
    assert run.counts["tests"] == 4
    assert not (project.root / ".vllm-perf").exists()
