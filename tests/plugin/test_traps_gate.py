# SPDX-License-Identifier: Apache-2.0
"""When pytest-benchmark's gate goes off, and how: each trap beside what ours does."""

from tests.plugin.projects import Project
from tests.plugin.stock import COMPARE, StockProject

OURS = ("--benchmark-compare",)


def slower(project: Project) -> None:
    """Let first tokens come half as late again: more than any machine's noise, within the budget."""
    project.engines("ttft-ms = 100", "ttft-ms = 150")


def test_pb01_h73_any_metric_and_any_allowance(stock: StockProject, measured: Project) -> None:
    for check in ("p50:10%", "ops:10%", "mean:10.5%", "mean:10 %"):
        run = stock.run("--benchmark-compare", f"--benchmark-compare-fail={check}")
        assert run.code == 4
        assert run.cases == {}
    slower(measured)
    ours = measured.run(*OURS, "--perf-allowed-change", "0.105", "-k", "ttft_p50")
    assert ours.code == 1, ours.text
    assert "allowed 10.5 %" in ours.failures["test_first_token_comes_in_time[last:chat:ttft_p50]"]


def test_pb02_h73_throughput_is_better_when_it_grows(stock: StockProject, measured: Project) -> None:
    stock.measured(throughput=100.0)
    stock.run()
    stock.measured(throughput=200.0)
    assert stock.run(*COMPARE).code == 1
    measured.engines("ttft-ms = 100, itl-ms = 15", "ttft-ms = 40, itl-ms = 5")
    faster = measured.run(*OURS, "-k", "output_throughput")
    assert faster.code == 0, faster.text
    assert "improved" in faster.text
    measured.engines("ttft-ms = 40, itl-ms = 5", "ttft-ms = 200, itl-ms = 50")
    ours = measured.run(*OURS, "-k", "output_throughput")
    assert ours.code == 1, ours.text
    assert ours.metrics("failed") == {"output_throughput"}


def test_pb03_two_checks_are_two_checks(stock: StockProject, measured: Project) -> None:
    twice = ("--benchmark-compare-fail=mean:5%", "--benchmark-compare-fail=max:500%")
    stock.run()
    stock.measured(ttft=0.3)
    assert stock.run("--benchmark-compare", *twice).code == 0
    ours = measured.run(*OURS, *twice, "-k", "ttft_p50")
    assert ours.code == 4, ours.text
    assert "write both after one: --benchmark-compare-fail mean:5% max:500%" in ours.text
    assert measured.boots() == ["last"]  # the baseline's own


def test_pb04_a_swallowed_path_is_no_pass(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.3)
    assert stock.run("--benchmark-compare", "tests/perf", paths=()).code == 0
    ours = measured.run("--benchmark-compare", "tests/perf", paths=())
    assert ours.code == 4
    assert "Put the path first: pytest tests/perf --benchmark-compare" in ours.text


def test_pb05_a_regression_fails_a_test_by_name(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.3)
    run = stock.run(*COMPARE)
    assert run.code == 1
    assert "Traceback" in run.text
    assert "1 passed" not in run.text
    assert run.counts["failures"] == run.counts["errors"] == 0
    slower(measured)
    ours = measured.run(*OURS, "-k", "ttft_p50 or tpot_p50")
    assert ours.code == 1, ours.text
    assert "Traceback" not in ours.text
    assert "1 failed, 1 passed" in ours.text
    assert ours.ended("failed") == {"test_first_token_comes_in_time[last:chat:ttft_p50]"}
    for name, value in (("metric", "ttft_p50"), ("change", "regressed"), ("kind", "passed")):
        assert f'<property name="vllm_perf.{name}" value="{value}"' in ours.junit


def test_pb13_h72_who_misses_a_budget_is_no_baseline(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.3)
    stock.limits(ttft=0.25)
    assert stock.run().counts["failures"] == 1
    stock.limits()
    assert stock.run(*COMPARE).code == 0  # against the run that failed
    measured.engines("ttft-ms = 100", "ttft-ms = 300")
    assert measured.run("-k", "ttft_p50").code == 1
    measured.change("fixtures/budgets/cpu.toml", "max = 250", "max = 999")
    ours = measured.run(*OURS, "-k", "ttft_p50")
    assert ours.code == 1, ours.text
    assert "regressed" in ours.failures["test_first_token_comes_in_time[last:chat:ttft_p50]"]


def test_pb14_the_second_run_of_a_slow_commit_fails_too(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.3)
    assert [stock.run(*COMPARE).code for _ in range(2)] == [1, 0]
    slower(measured)
    assert [measured.run(*OURS, "-k", "ttft_p50").code for _ in range(2)] == [1, 1]


def test_pb18_h69_the_first_run_makes_the_baseline(stock: StockProject, project: Project) -> None:
    run = stock.run(*COMPARE)
    assert run.code == 4
    assert "--benchmark-compare-fail requires valid --benchmark-compare" in run.text
    ours = project.run(*COMPARE, "-k", "ttft_p50")
    assert ours.code == 0, ours.text
    assert "baseline created" in ours.text
