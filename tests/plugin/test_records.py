# SPDX-License-Identifier: Apache-2.0
"""What is kept of a run: our own record, and the rows in everything that pytest-benchmark does."""

import json
import re
import statistics
from typing import Any

import pytest

from tests.plugin.conftest import TwoRuns
from tests.plugin.projects import CONFTEST, Finished, Project, rows

TESTED = {
    "chat": (
        "ttft_mean",
        "ttft_p50",
        "ttft_p95",
        "tpot_mean",
        "tpot_p50",
        "itl_p50",
        "itl_p95",
        "e2el_p50",
        "output_throughput",
        "request_throughput",
    ),
    "boot": ("boot_time",),
}


# Another process deletes the baseline (prunes, say) just before it is read at the end of the session.
VANISHING = """
from vllm_perf.history.store import Store, StoreError

def gone(store, file):
    raise StoreError(f"{file}: cannot be read: gone")

def pytest_runtest_logreport(report):
    if report.when == "teardown":
        Store.load = gone
"""


def expected_rows() -> set[str]:
    """Return every tested metric of every engine and workload; without caching there is no hit rate."""
    names = {
        f"{metric}[{engine}-{workload}]"
        for engine in ("first", "middle", "last")
        for workload, metrics in TESTED.items()
        for metric in metrics
    }
    return names | {"prefix_hit_rate[middle-chat]", "prefix_hit_rate[last-chat]"}


def series(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what a record measured, by the name of its row."""
    return next(row["extra_info"] for row in record["benchmarks"] if row["name"] == name)


def test_the_first_run_creates_the_baseline_and_passes_however_strict(two_runs: TwoRuns) -> None:
    assert two_runs.alone.code == 0, two_runs.alone.text
    assert "baseline created" in two_runs.alone.text
    assert "Traceback" not in two_runs.alone.text


def test_every_tested_metric_is_a_row_that_pytest_benchmark_saves(two_runs: TwoRuns) -> None:
    assert set(rows(two_runs.project.saved()[0])) == expected_rows()


def test_every_tested_metric_is_a_row_of_benchmark_json(two_runs: TwoRuns) -> None:
    assert set(rows(json.loads(two_runs.benchmark_json.read_text()))) == expected_rows()


def test_every_tested_metric_is_a_row_of_the_table(two_runs: TwoRuns) -> None:
    assert expected_rows() <= set(two_runs.alone.text.split())


def test_every_row_is_compared_with_the_saved_one(two_runs: TwoRuns) -> None:
    for name in expected_rows():
        assert f"{name} (0001_" in two_runs.spread.text
        assert f"{name} (NOW)" in two_runs.spread.text


def test_the_record_holds_every_tested_series(two_runs: TwoRuns) -> None:
    assert expected_rows() <= set(rows(two_runs.project.records()[0]))


def test_the_median_column_of_a_ttft_p50_row_is_the_runs_p50(two_runs: TwoRuns) -> None:
    name = "ttft_p50[last-chat]"
    row = rows(two_runs.project.saved()[0])[name]
    p50_ms = series(two_runs.project.records()[0], name)["value"]
    assert row["stats"]["median"] == pytest.approx(p50_ms / 1e3, rel=1e-9)
    assert 0.1 <= row["stats"]["median"] < 0.2  # the golden engine's own 100 ms, and what a busy machine adds
    data = rows(json.loads(two_runs.benchmark_json.read_text()))[name]["stats"]["data"]
    assert len(data) == 24
    assert statistics.median(data) == row["stats"]["median"]


def test_the_ops_column_of_a_throughput_row_is_tokens_per_second(two_runs: TwoRuns) -> None:
    name = "output_throughput[last-chat]"
    row = rows(two_runs.project.saved()[0])[name]
    tokens_per_s = series(two_runs.project.records()[0], name)["value"]
    # Over repetitions the column is all tokens over all time, the metric the mean of their rates.
    assert row["stats"]["ops"] == pytest.approx(tokens_per_s, rel=0.01)
    assert 100 < tokens_per_s <= 8 * 4 / (0.1 + 3 * 0.015)


def second(project: Project, *args: str) -> Finished:
    """Run one test as the second run of a project, cheaply."""
    return project.run("--benchmark-compare", "-k", "ttft_p50", *args)


def test_a_run_that_missed_its_budget_is_kept_and_is_nobodys_baseline(project: Project) -> None:
    project.change("fixtures/budgets/cpu.toml", "max = 250", "max = 50")
    assert second(project).code == 1
    kept = rows(project.records()[0])["ttft_p50[last-chat]"]["extra_info"]
    assert kept["status"] == "failed_budget"
    assert 100 <= kept["value"] < 200
    project.change("fixtures/budgets/cpu.toml", "max = 50", "max = 250")
    run = second(project, "--perf-fail-on", "inconclusive")
    assert run.code == 10, run.text
    assert "ttft_p50[last-chat]: no good run of it: 1 stored, all failed_budget" in run.text
    assert "ttft_p50[last-chat] (0001_" not in run.text  # nor pytest-benchmark's own


def test_a_renamed_engine_is_listed_on_both_sides_and_fails_where_asked(project: Project) -> None:
    assert second(project).code == 0
    project.engines("[engines.last]", "[engines.newest]")
    project.engines('engines = ["last"]', 'engines = ["newest"]')
    run = second(project)
    assert run.code == 0, run.text
    assert re.search(r"newest under chat, .*: new: none of the 1 stored runs has it", run.text)
    assert re.search(r"last under chat, .*: was measured for the baseline and is not in this run", run.text)
    strict = second(project, "--perf-baseline", project.record_ids()[0], "--perf-fail-on", "inconclusive")
    assert strict.code == 10, strict.text
    assert strict.metrics("failed") == {"ttft_p50"}


def test_benchmark_disable_keeps_our_record_and_says_what_is_missing(project: Project) -> None:
    run = second(project, "--benchmark-disable")
    assert run.code == 0, run.text
    assert "pytest-benchmark is switched off (--benchmark-disable)" in run.text
    assert "ttft_p50[last-chat]" in rows(project.records()[0])
    assert project.saved() == []


def test_benchmark_only_runs_perf_tests(project: Project) -> None:
    project.write("tests/perf/test_other.py", "def test_other(): pass")
    run = second(project, "--benchmark-only")
    assert run.code == 0, run.text
    assert run.metrics("passed") == {"ttft_p50"}


def test_benchmark_skip_skips_perf_tests(project: Project) -> None:
    run = second(project, "--benchmark-skip")
    assert run.ended("passed") == set()
    assert run.counts["skipped"] == 1
    assert project.boots() == []


def test_from_another_rootdir_nothing_is_measured_and_it_says_why(project: Project) -> None:
    run = second(project, f"--rootdir={project.root / 'tests'}")
    assert run.code == 4, run.text
    assert "tests/fixtures/engines.toml: cannot be read" in run.text


def test_from_a_folder_below_the_same_history_is_used(project: Project) -> None:
    assert second(project).code == 0
    run = project.run("--benchmark-compare", "-k", "ttft_p50", paths=("perf",), folder="tests")
    assert run.code == 0, run.text
    assert len(project.records()) == 2
    assert "baseline created" not in run.text


def test_a_history_that_cannot_be_written_is_refused_before_anything_runs(project: Project) -> None:
    project.write("taken", "a file")
    run = second(project, "--perf-history", "taken/history")
    assert run.code == 4, run.text
    assert "no run can be stored there" in run.text
    assert project.boots() == []


def test_a_baseline_that_is_gone_at_the_end_costs_the_comparison_not_the_record(measured: Project) -> None:
    measured.write("conftest.py", CONFTEST + VANISHING)
    run = measured.run_apart("--benchmark-compare", "-k", "ttft_p50")
    assert run.code == 0, run.text
    assert "not compared as a whole: " in run.text
    assert "INTERNALERROR" not in run.text
    assert len(measured.records()) == 2


def test_a_damaged_record_is_named_and_the_rest_is_compared(measured: Project) -> None:
    measured.write(".vllm-perf/history/2026_0101T000000000000Z_x_torn.json", "{")
    run = measured.run("--benchmark-compare", "-k", "ttft_p50")
    assert run.code == 0, run.text
    assert "2026_0101T000000000000Z_x_torn.json: skipped: not JSON" in run.text
    assert "Against the baseline" in run.text


def test_without_pytest_benchmark_it_measures_and_records(project: Project) -> None:
    run = project.run("-p", "no:benchmark", "-k", "ttft_p50")
    assert run.code == 0, run.text
    assert len(project.records()) == 1
