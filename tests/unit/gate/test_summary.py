# SPDX-License-Identifier: Apache-2.0
"""What a gate shows: the verdict first, the numbers beside it, the rest folded."""

import json
from dataclasses import replace

import pytest

from tests.unit.gate.gate_fakes import cell, comparison, pair, series, state
from vllm_perf.gate.boot import Pair
from vllm_perf.gate.decision import Decision
from vllm_perf.gate.runner import Outcome
from vllm_perf.gate.summary import Summary
from vllm_perf.history.environment import Software
from vllm_perf.history.record import Cell
from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.types import Change

SLOWER = comparison(
    Change.REGRESSED,
    base=148.0,
    head=1_721.0,
    ratio=11.63,
    low=11.2,
    high=12.1,
    allowed=0.02,
    floor=0.013,
    reason="ttft_p50 148.0 -> 1,721 ms: worse by more than allowed",
)
PREFILL = comparison(
    Change.INCONCLUSIVE, metric="prefill_mean", base=20.0, head=1_560.0, ratio=78.0, gating=False, reason=""
)


def summary(
    change: Change, *comparisons: object, pairs: tuple[Pair, ...] = (), missing: int | None = 0
) -> Summary:
    one = state(change, missing=missing, comparisons=comparisons or (comparison(change),))
    outcome = Outcome(
        decision=Decision(workloads={"chat": one}),
        pairs=pairs,
        stopped="decided after 4 pairs",
        resumed_boots=0,
        took_s=600.0,
    )
    return Summary(outcome=outcome, base="caching, vLLM 1", head="plain, vLLM 1", command="vllm-perf gate …")


@pytest.mark.parametrize(
    ("change", "first", "code"),
    [
        (Change.REGRESSED, "## ❌ Head is slower than base", 1),
        (Change.IMPROVED, "## 🚀 Head is faster than base, nothing is slower", 0),
        (Change.SAME, "## ✅ Head is as fast as base", 0),
        (Change.INCONCLUSIVE, "## ❔ No verdict (this is not a pass)", 10),
    ],
)
def test_the_verdict_is_the_first_line(change: Change, first: str, code: int) -> None:
    shown = summary(change)
    assert shown.markdown().splitlines()[0] == first
    assert (shown.exit_code, shown.to_json()["exit_code"]) == (code, code)


def test_a_regression_names_metric_numbers_interval_allowed_and_floor() -> None:
    text = summary(Change.REGRESSED, SLOWER).markdown()
    interval = "+1063.0 % (+1020.0 % … +1110.0 %)"
    assert f"| ❌ regressed | chat | ttft_p50 | 148.0 → 1,721 ms | {interval} | 2.0% (asked) | 1.3% |" in text
    assert "chat: ttft_p50 148.0 -> 1,721 ms: worse by more than allowed." in text


def test_a_regression_says_which_part_of_the_time_moved() -> None:
    base, head = with_stages(20.0, ttft_ms=30.0), with_stages(1_560.0, ttft_ms=1_571.0)
    text = summary(Change.REGRESSED, SLOWER, pairs=(pair(base, head),)).markdown()
    assert (
        "- chat, ttft_p50: prefill 20 → 1.56e+03 ms (+1.54e+03); not: outside the engine 9 → 10 ms (+1)"
        in text
    )


def test_stages_that_nobody_tells_are_said_to_be_unknown() -> None:
    assert (
        "not known: the server's /metrics tell no stage times" in summary(Change.REGRESSED, SLOWER).markdown()
    )


def test_metrics_that_do_not_gate_are_folded() -> None:
    text = summary(Change.REGRESSED, SLOWER, PREFILL).markdown()
    folded = text.index("<details>")
    assert text.index("| inconclusive | chat | prefill_mean |") > folded > text.index("| ttft_p50 |")


def test_no_verdict_says_how_many_pairs_are_missing() -> None:
    assert "about 3 more pairs would decide" in summary(Change.INCONCLUSIVE, missing=3).markdown()
    assert "more pairs may not help" in summary(Change.INCONCLUSIVE, missing=None).markdown()


def with_stages(prefill_ms: float, ttft_ms: float) -> CellResult:
    result = cell()
    assert isinstance(result.cell, Cell)
    stages = {"queue": 1.0, "prefill": prefill_ms, "decode": 5.0}
    mean = series("chat", "ttft_mean", ttft_ms)
    return replace(result, cell=replace(result.cell, stages_ms=stages), series=(*result.series, mean))


def with_caching(result: CellResult, caching: bool) -> CellResult:
    assert isinstance(result.cell, Cell)
    software = Software(engine_args={"enable-prefix-caching": caching})
    return replace(
        result, cell=replace(result.cell, environment=replace(result.cell.environment, software=software))
    )


def test_what_the_sides_differ_in_is_listed() -> None:
    both = pair(with_caching(cell(), True), with_caching(cell(), False))
    assert (
        "- software.engine_args.enable-prefix-caching: True → False"
        in summary(Change.REGRESSED, pairs=(both,)).markdown()
    )


def test_pairs_that_do_not_count_are_named_with_the_reason() -> None:
    spoiled = pair(cell(), cell(invalid=("GPU: GPU 0 shared with pid 4711 (python, 20312 MiB)",)), number=2)
    shown = summary(Change.INCONCLUSIVE, pairs=(spoiled,))
    line = "pair 2, chat, head: GPU: GPU 0 shared with pid 4711 (python, 20312 MiB)"
    assert f"- {line}" in shown.markdown()
    assert line in shown.text()


def test_the_terminal_shows_the_same_verdict_and_numbers() -> None:
    text = summary(Change.REGRESSED, SLOWER).text()
    assert text.startswith("Head is slower than base: chat: ttft_p50 148.0")
    assert "+1063.0 % (+1020.0 % … +1110.0 %)" in text


def test_another_program_gets_plain_json() -> None:
    data = json.loads(json.dumps(summary(Change.REGRESSED, SLOWER).to_json()))
    assert data["verdict"] == "regressed"
    assert data["workloads"]["chat"]["comparisons"][0]["metric"] == "ttft_p50"
    assert data["workloads"]["chat"]["comparisons"][0]["change"] == "regressed"


def test_the_bar_points_to_worse_and_is_left_out_where_nothing_was_compared() -> None:
    less = comparison(
        Change.REGRESSED, metric="output_throughput", ratio=0.8, low=0.78, high=0.82, allowed=0.05
    )
    nothing = comparison(Change.INCONCLUSIVE, ratio=None, low=None, high=None)
    rows = summary(Change.REGRESSED, less, nothing).markdown().splitlines()
    drawn = {line.split(" | ")[2]: line.split(" | ")[-1].strip(" |") for line in rows if " | chat | " in line}
    assert drawn["output_throughput"] == "`·····┊····│····┊····▸`"
    assert drawn["ttft_p50"] == ""
