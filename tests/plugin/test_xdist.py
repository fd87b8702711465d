# SPDX-License-Identifier: Apache-2.0
"""On several of xdist's workers: the same series, rows, comparison and exit codes as alone."""

import os

from tests.plugin.conftest import TwoRuns
from tests.plugin.projects import Project, rows
from vllm_perf.engine.state import live_notes

SPREAD = ("-n", "2")
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


def test_the_second_worker_waits_and_says_so(two_runs: TwoRuns) -> None:
    assert "vllm-perf: waiting for cpu" in two_runs.spread.text


def test_the_record_holds_the_same_series(two_runs: TwoRuns) -> None:
    alone, spread = two_runs.project.records()
    assert set(rows(spread)) == set(rows(alone))


def test_the_saved_rows_are_the_same(two_runs: TwoRuns) -> None:
    alone, spread = two_runs.project.saved()
    assert set(rows(spread)) == set(rows(alone))


def test_it_is_compared_with_the_run_before(two_runs: TwoRuns) -> None:
    assert "baseline created" not in two_runs.spread.text
    assert "Against the baseline" in two_runs.spread.text


def test_the_gain_over_another_workers_engine_is_judged(two_runs: TwoRuns) -> None:
    name = "test_last_rung_gains_over_the_first[ladder:last:chat:output_throughput]"
    assert two_runs.spread.cases[name] == "passed"


def test_every_other_ending_has_the_exit_code_it_has_alone(ladder: Project) -> None:
    few = (*SPREAD, "-k", "ttft_p50 and not middle")
    ladder.change("fixtures/budgets/cpu.toml", "max = 250", "max = 50")
    assert ladder.run_apart(*few).code == 1
    ladder.change("fixtures/workloads.toml", "output_tokens", "hit_rate_min = 0.99\noutput_tokens")
    assert ladder.run_apart(*few).code == 10
    ladder.engines("itl-ms = 15 }", "itl-ms = 15, no-such-flag = 1 }")
    broken = ladder.run_apart(*few)
    assert broken.code == 11, broken.text
    assert "engine 'last' did not boot" in broken.text


def test_a_regression_fails_the_same_test_as_alone(ladder: Project) -> None:
    few = ("--benchmark-compare", "-k", "ttft_p50 and (first or last)")
    assert ladder.run(*few).code == 0
    ladder.engines("ttft-ms = 100", "ttft-ms = 150")
    spread = ladder.run_apart(*SPREAD, *few)
    assert spread.code == 1, spread.text
    name = "test_first_token_comes_in_time[last:chat:ttft_p50]"
    assert spread.ended("failed") == {name}
    assert "what moved: prefill" in spread.failures[name]
    statuses = [rows(record)["ttft_p50[last-chat]"]["extra_info"]["status"] for record in ladder.records()]
    assert statuses == ["ok", "regressed"]


def test_a_crashed_worker_is_not_green_and_leaves_no_engine(ladder: Project) -> None:
    ladder.write(
        "tests/perf/test_crash.py",
        "import os, pytest\n"
        "@pytest.mark.perf_metrics('ttft_p50')\n"
        "def test_crash(perf):\n"
        "    perf.check()\n"
        "    os._exit(0)\n",
    )
    run = ladder.run_apart(
        *SPREAD, "-k", "[first: and (crash or ttft_p50) or [last:chat:ttft_p50] and not crash"
    )
    assert run.code == 1, run.text
    assert "crashed while running" in run.text
    assert "test_first_token_comes_in_time[last:chat:ttft_p50]" in run.ended("passed")
    os.environ["VLLM_PERF_STATE_DIR"] = ladder.env["VLLM_PERF_STATE_DIR"]
    try:
        assert live_notes() == ()
    finally:
        del os.environ["VLLM_PERF_STATE_DIR"]


def test_dist_each_is_refused_where_it_would_measure_twice(project: Project) -> None:
    run = project.run_apart(*SPREAD, "--dist", "each", "-k", "ttft_p50")
    assert run.code == 4, run.text
    assert "--dist each would measure everything once a worker" in run.text
    assert project.boots() == []


def test_an_unknown_name_is_a_usage_error_on_workers_too(project: Project) -> None:
    run = project.run_apart(*SPREAD, "--perf-engine", "lst")
    assert run.code == 4, run.text
    assert "did you mean 'last'?" in run.text
    assert "INTERNALERROR" not in run.text


def test_other_tests_are_scheduled_by_xdist_itself(project: Project) -> None:
    project.write("tests/other/test_other.py", STOCK)
    for dist in ("loadgroup", "each"):
        run = project.run(*SPREAD, "--dist", dist, "-v", paths=("tests/other",))
        assert run.code == 0, run.text
        assert run.counts["tests"] == (4 if dist == "each" else 2)
    assert not (project.root / ".vllm-perf").exists()
