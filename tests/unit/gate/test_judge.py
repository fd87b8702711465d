# SPDX-License-Identifier: Apache-2.0
"""Judging pairs: the verdict's own rules over what boots measured, and what a spoiled pair is worth."""

import math
from dataclasses import replace

import pytest

from tests.unit.gate.gate_fakes import PROMPTS, cell, pair, series
from vllm_perf.engine.throttle import POWER_CAP
from vllm_perf.gate.boot import Pair
from vllm_perf.gate.judge import Judge
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.sides import side_of
from vllm_perf.gate.spoiled import spoiled
from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.sequential import Next
from vllm_perf.verdict.types import Change

THROTTLED = "GPU: GPU 0 throttled: hardware slowdown in 3 of 40 samples; let it cool"
WRONG_LENGTH = "OUTPUT_LENGTH: 3 tokens instead of 16; see the log"
# Boots of one engine differ a little; by how much is fixed here, so that the test is.
WAVER = (1.0, 1.003, 0.998, 1.001, 0.999, 1.002)


def pairs(slower: float, count: int = 4, workload: str = "chat") -> list[Pair]:
    """Return pairs whose head takes ``slower`` times as long to the first token."""
    return [
        pair(
            cell(workload, 100.0 * WAVER[at]), cell(workload, 100.0 * slower * WAVER[-1 - at]), number=at + 1
        )
        for at in range(count)
    ]


def judge(*workloads: str) -> Judge:
    return Judge(workloads=workloads or ("chat",), limits=Limits(min_pairs=3, max_pairs=5))


def test_nothing_measured_wants_a_pair() -> None:
    assert judge()([]).open == ("chat",)


def test_equal_sides_come_out_the_same() -> None:
    decision = judge()(pairs(1.0, 5))
    assert (decision.change, decision.open) == (Change.SAME, ())


def test_a_flag_asks_for_a_fresh_pair_and_is_red_only_with_it() -> None:
    flagged = judge()(pairs(1.5, 3)).workloads["chat"]
    assert (flagged.next, flagged.flagged) == (Next.CONFIRM, ("ttft_p50",))
    assert judge()(pairs(1.5, 3)).ended().change is Change.INCONCLUSIVE
    assert judge()(pairs(1.5, 4)).ended().change is Change.REGRESSED


def test_a_fresh_pair_that_disagrees_takes_the_flag_back() -> None:
    measured = [*pairs(1.5, 3), pair(cell(ttft_ms=150.0), cell(ttft_ms=100.0), number=4)]
    assert judge()(measured).change is not Change.REGRESSED


def test_workloads_are_judged_each_by_its_own_pairs() -> None:
    measured = [*pairs(1.5, 4), *pairs(1.0, 4, "unique")]
    decision = judge("chat", "unique")(measured)
    assert decision.workloads["chat"].change is Change.REGRESSED
    assert decision.workloads["unique"].change is not Change.REGRESSED


def test_the_chance_of_a_false_alarm_is_shared_out_over_the_workloads() -> None:
    alone = judge("chat")(pairs(1.04, 3)).workloads["chat"]
    shared = judge("chat", "unique", "burst", "long")(pairs(1.04, 3)).workloads["chat"]
    assert alone.flagged == ("ttft_p50",)
    assert shared.flagged == ()


def test_a_throttled_pair_is_not_counted_and_another_is_wanted() -> None:
    spoiled_pair = pair(cell(), cell(invalid=(THROTTLED,)), number=9)
    state = judge()([*pairs(1.0, 2), spoiled_pair]).workloads["chat"]
    assert (state.pairs, state.spoiled, state.next) == (2, 1, Next.MEASURE)


def test_too_many_throttled_pairs_end_in_no_verdict_with_the_reason() -> None:
    state = judge()([pair(cell(invalid=(THROTTLED,)), cell()) for _ in range(4)]).workloads["chat"]
    assert (state.next, state.change) == (Next.STOP, Change.INCONCLUSIVE)
    assert "base: GPU: GPU 0 throttled" in state.reason


def test_a_fault_that_would_come_again_is_not_measured_again() -> None:
    state = judge()([pair(cell(), cell(invalid=(WRONG_LENGTH,)))]).workloads["chat"]
    assert (state.next, state.change, state.missing_pairs) == (Next.STOP, Change.INCONCLUSIVE, None)
    assert "measuring again would not help: head: OUTPUT_LENGTH" in state.reason


FAILED = "TOO_MANY_FAILED: 8 of 8 requests failed (8 x ENGINE_DIED), allowed are 0.0%; remove the cause"


def test_a_head_that_fails_what_base_answers_is_slower_once_a_second_pair_says_so() -> None:
    failing = [pair(cell(), cell(invalid=(FAILED,)), number=number) for number in (1, 2)]
    assert judge()(failing[:1]).open == ("chat",)
    decision = judge()(failing)
    assert (decision.change, decision.open) == (Change.REGRESSED, ())
    assert "head fails what base answers, in 2 pairs" in decision.reason


def test_a_base_that_fails_as_well_is_no_verdict() -> None:
    failing = [pair(cell(invalid=(FAILED,)), cell(invalid=(FAILED,))) for _ in range(2)]
    assert judge()(failing).change is Change.INCONCLUSIVE


@pytest.mark.parametrize(
    ("base_mhz", "head_mhz", "capped", "unlike"),
    [(1980.0, 1960.0, 0, False), (1980.0, 1800.0, 0, True), (1980.0, 1800.0, 4, False)],
)
def test_unlike_clocks_spoil_a_pair_unless_the_power_cap_explains_them(
    base_mhz: float, head_mhz: float, capped: int, unlike: bool
) -> None:
    base = cell(telemetry={"gpus.0.sm_mhz.median": base_mhz})
    head = cell(telemetry={"gpus.0.sm_mhz.median": head_mhz, f"gpus.0.throttle.{POWER_CAP}": capped})
    assert bool(spoiled(pair(base, head), "chat")) is unlike


def ttft(values: tuple[float, ...]) -> CellResult:
    one = series("chat", "ttft_p50", 100.0, samples=(values,), low=90.0, high=110.0)
    return replace(cell(), series=(one,))


def test_a_sides_times_go_by_prompt_and_failed_requests_are_left_out() -> None:
    side = side_of(ttft((100.0, math.inf, *[50.0] * 6)))
    assert side.by_prompt["ttft"] == pytest.approx({PROMPTS[0]: 100.0} | dict.fromkeys(PROMPTS[2:], 50.0))


def test_times_that_cannot_be_told_apart_by_prompt_are_not_paired() -> None:
    assert side_of(ttft((100.0,) * 7)).by_prompt["ttft"] == {}


def test_a_sides_work_is_a_request_s_share_of_the_totals() -> None:
    work = side_of(cell()).work
    assert (work.sent, work.failed, work.prompt_tokens, work.output_tokens) == (8, 0, 100.0, 16.0)
    assert (work.finish, work.preemptions) == ({"length": 1.0}, None)


def test_a_sides_spread_is_the_standard_error_that_its_interval_stands_for() -> None:
    # ln(110 / 90) / 2 = 0.10034, over the normal 97.5 % quantile 1.95996
    assert side_of(ttft((100.0,) * 8)).spread == pytest.approx({"ttft_p50": 0.051194}, rel=1e-3)


def test_a_cell_without_a_measurement_is_no_side() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        side_of(CellResult(engine="e", workload="chat", failure="it died"))
