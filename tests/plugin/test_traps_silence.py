# SPDX-License-Identifier: Apache-2.0
"""Where pytest-benchmark passes without having compared anything: each trap beside what ours does."""

import math
import re

import pytest

from tests.plugin.projects import Project
from tests.plugin.stock import COMPARE, StockProject
from tests.plugin.test_traps_gate import OURS, slower
from tests.unit.history.builders import record, series
from vllm_perf.history.document import to_json
from vllm_perf.metrics.measurement import Measurement
from vllm_perf.spec.budget import Budget
from vllm_perf.verdict.budgets import judge
from vllm_perf.verdict.types import Status

STRICT = (*OURS, "--perf-fail-on", "inconclusive")
GROUPS = """
import pytest

GROUPS = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in "abc"]

@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("group", GROUPS)
def test_group(group, number): pass
"""


def test_pb06_xdist_compares(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.3)
    assert stock.run(*COMPARE, "-n", "2").code == 0
    slower(measured)
    ours = measured.run(*OURS, "-n", "2", "-k", "ttft_p50")
    assert ours.code == 1, ours.text
    assert ours.metrics("failed") == {"ttft_p50"}


def test_pb07_switched_off_it_is_our_comparison_still(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.3)
    assert stock.run(*COMPARE, "--benchmark-disable").code == 0
    slower(measured)
    ours = measured.run(*OURS, "--benchmark-disable", "-k", "ttft_p50")
    assert ours.code == 1, ours.text
    assert "pytest-benchmark is switched off" in ours.text


def test_pb08_what_is_new_is_said_to_be(stock: StockProject, measured: Project) -> None:
    stock.run()
    stock.measured(ttft=0.2, added=9.0)
    assert stock.run(*COMPARE).code == 0
    measured.engines('engines = ["last"]', 'engines = ["first", "last"]')
    ours = measured.run(*STRICT, "-k", "first and ttft_p50")
    assert ours.code == 10, ours.text
    assert "new: none of the 1 stored runs has it" in ours.text


def test_pb09_a_partial_run_takes_no_baseline_away(stock: StockProject, measured: Project) -> None:
    stock.measured(ttft=0.2, other=0.1)
    stock.run()
    stock.run("-k", "other")
    stock.measured(ttft=0.3, other=0.1)
    assert stock.run(*COMPARE).code == 0
    assert measured.run("-k", "boot").code == 0
    assert len(measured.records()) == 2
    slower(measured)
    ours = measured.run(*OURS, "-k", "ttft_p50")
    assert ours.code == 1, ours.text


def test_pb10_another_root_is_no_pass(stock: StockProject, measured: Project) -> None:
    elsewhere = ("-c", "pytest.ini", "--rootdir=tests")
    stock.run()
    stock.measured(ttft=0.3)
    assert stock.run(*COMPARE, *elsewhere).code == 0
    slower(measured)
    ours = measured.run(*OURS, *elsewhere, "-k", "ttft_p50")
    assert ours.code == 4, ours.text
    assert "tests/fixtures/engines.toml: cannot be read" in ours.text


def test_pb11_h71_a_renamed_parameter_is_listed_and_fails(stock: StockProject, measured: Project) -> None:
    stock.measured(ttft=0.2, other=0.1)
    stock.run()
    stock.measured(renamed=0.3, other=0.1)
    assert stock.run(*COMPARE).code == 0
    measured.engines("[engines.last]", "[engines.newest]")
    measured.engines('engines = ["last"]', 'engines = ["newest"]')
    ours = measured.run(*STRICT, "-k", "ttft_p50")
    assert ours.code == 10, ours.text
    assert "new: none of the 1 stored runs has it" in ours.text
    assert "was measured for the baseline and is not in this run" in ours.text


def test_pb12_nan_is_no_pass(stock: StockProject) -> None:
    stock.run()
    stock.measured(ttft=[math.nan])
    assert stock.run(*COMPARE).code == 0
    nan = Measurement(metric="ttft_p50", unit="ms", direction="lower", value=math.nan, sent=100)
    budget = Budget(metric="ttft_p50", engine="*", workload="*", max=250)
    assert judge(budget, nan).status is Status.NO_VERDICT
    with pytest.raises(ValueError, match="ttft_p50"):
        to_json(record(series(value=math.nan)))


def test_pb21_an_engines_tests_stay_together(stock: StockProject, ladder: Project) -> None:
    stock.write("tests/perf/test_group.py", GROUPS)
    run = stock.run("-n", "2", "--dist", "loadgroup", "-v", "-k", "test_group")
    ran = set(re.findall(r"\[(gw\d)\] .* PASSED .*test_group\[([abc])-", run.text))
    assert len(ran) > 3, run.text  # more pairs of worker and group than there are groups
    ours = ladder.run("-n", "2", "--dist", "loadgroup", "-k", "boot or ttft_p50")
    assert ours.code == 0, ours.text
    assert ladder.boots() == ["first", "last", "middle"]
