# SPDX-License-Identifier: Apache-2.0
"""A run is compared with its baselines series by series; what got worse is named, and the stage with it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.history.builders import at, environment, record, series
from tests.unit.history.synthetic import Truth, made_up
from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.compare import Rules, RunComparison, compare_run, mark_regressed
from vllm_perf.history.entry import entry_of
from vllm_perf.history.environment import Environment
from vllm_perf.history.lineage import Lineage, Tier
from vllm_perf.history.record import EngineFacts, Repetition, RunRecord, SeriesKey, SeriesStatus, Work
from vllm_perf.history.sides import by_prompt, side_of
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.noise import CPU_BOOTS, GPU_BOOTS, STEADY_BOOTS, BootNoise
from vllm_perf.verdict.types import Change

ANY = Lineage(tiers=(Tier(ranks=None),), past="any commit")
SLOWER = SeriesKey("fp8", "chat", "ttft_p50")


def compared(head: RunRecord, *bases: RunRecord, rules: Rules | None = None) -> RunComparison:
    files = {one.run_id: one for one in bases}
    entries = [entry_of(one, one.run_id) for one in bases]
    found = find_baselines(entries, head, lineage=ANY, policy=HistorySpec())
    return compare_run(head, found, lambda run: files[run.file], rules or Rules())


def names(changes: Sequence[object]) -> list[str]:
    return [str(getattr(one, "key", one)) for one in changes]


BASE = made_up("base", Truth(seed=1))


def test_a_slower_engine_is_named_and_only_that_one() -> None:
    result = compared(made_up("head", Truth(seed=2, slower="fp8", ttft=1.4)), BASE)
    # A first token that comes so much later takes the throughput with it.
    assert names(result.regressed) == ["ttft_p50[fp8-chat]", "output_throughput[fp8-chat]"]
    assert result.change is Change.REGRESSED


def test_a_regression_says_which_stage_moved() -> None:
    result = compared(made_up("head", Truth(seed=2, slower="fp8", ttft=1.4)), BASE)
    assert result.regressed[0].attribution.moved == ("prefill",)


def test_a_faster_engine_is_reported_as_improved_not_as_a_regression() -> None:
    result = compared(made_up("head", Truth(seed=2, slower="fp8", ttft=0.55)), BASE)
    one = result.of(SLOWER)
    assert one is not None
    assert one.comparison.change is Change.IMPROVED
    assert not result.regressed


def test_h73_less_throughput_is_worse() -> None:
    result = compared(made_up("head", Truth(seed=2, slower="fp8", tpot=1.3)), BASE)
    assert "output_throughput[fp8-chat]" in names(result.regressed)
    assert "tpot_p50[fp8-chat]" in names(result.regressed)


def test_an_unchanged_engine_raises_no_alarm() -> None:
    assert not compared(made_up("head", Truth(seed=2)), BASE).regressed


def test_the_run_that_regressed_is_nobodys_baseline() -> None:
    head = made_up("head", Truth(seed=2, slower="fp8", ttft=1.4), created=at(1))
    marked = mark_regressed(head, compared(head, BASE))
    assert marked.by_key[SLOWER].status is SeriesStatus.REGRESSED
    assert marked.by_key[SeriesKey("initial", "chat", "ttft_p50")].status is SeriesStatus.OK
    again = made_up("again", Truth(seed=3, slower="fp8", ttft=1.4), created=at(2))
    result = compared(again, BASE, marked)
    assert names(result.regressed) == ["ttft_p50[fp8-chat]"]


def test_what_has_no_good_number_now_is_undecided_and_says_why() -> None:
    head = made_up("head", Truth(seed=2))
    broken = replace(head.by_key[SLOWER], status=SeriesStatus.INVALID, reasons=("the GPU throttled",))
    head = replace(head, series=tuple(broken if one.key == SLOWER else one for one in head.series))
    one = compared(head, BASE).of(SLOWER)
    assert one is not None
    assert one.comparison.change is Change.INCONCLUSIVE
    assert one.comparison.gating
    assert one.comparison.reason == "invalid: the GPU throttled"
    assert one.comparison.head is None


def test_a_number_outside_the_catalogue_is_shown_and_not_judged() -> None:
    boots = [
        record(series(workload="boot", metric="boot_time", unit="s", value=value), run_id=name)
        for name, value in (("base", 30.0), ("head", 60.0))
    ]
    result = compared(boots[1], boots[0])
    one = result.compared[0].comparison
    assert (one.change, one.gating, one.ratio) == (Change.INCONCLUSIVE, False, 2.0)
    assert one.reason.startswith("shown, not judged")


def test_unequal_work_is_not_compared_by_its_time() -> None:
    head = made_up("head", Truth(seed=2, slower="fp8", ttft=1.4))
    cell = head.by_cell["fp8", "chat"]
    less = replace(
        cell,
        repetitions=(replace(cell.repetitions[0], work=replace(cell.repetitions[0].work, output_tokens=64)),),
    )
    head = replace(head, cells=tuple(less if one == cell else one for one in head.cells))
    one = compared(head, BASE).of(SLOWER)
    assert one is not None
    assert one.comparison.change is Change.INCONCLUSIVE
    assert "32.0 output tokens a request -> 1.0" in one.comparison.reason


def test_series_of_one_run_may_have_baselines_in_several() -> None:
    older = made_up("older", Truth(seed=1), created=at(0))
    newer = made_up("newer", Truth(seed=3), created=at(1))
    newer = replace(newer, series=tuple(one for one in newer.series if one.engine != "fp8"))
    result = compared(made_up("head", Truth(seed=2), created=at(2)), older, newer)
    runs = {one.key.engine: one.baseline.run.run_id for one in result.compared}
    assert runs == {"initial": "newer", "caching": "newer", "fp8": "older"}
    assert set(result.bases) == {"older", "newer"}


def test_a_first_run_is_compared_with_nothing_and_has_no_verdict() -> None:
    result = compared(BASE)
    assert result.created
    assert result.change is None


def test_prompts_are_paired_by_name_and_a_failed_request_is_left_out() -> None:
    cell = record().cells[0]
    one = series(samples=((100.0, float("inf"), 300.0),))
    assert by_prompt(one, cell) == pytest.approx({"p0": 100.0, "p2": 300.0})


def test_repetitions_are_joined_by_their_geometric_mean() -> None:
    cell = record().cells[0]
    twice = replace(cell, repetitions=cell.repetitions * 2)
    one = series(samples=((100.0, 1.0, 1.0), (400.0, 1.0, 1.0)))
    assert by_prompt(one, twice)["p0"] == pytest.approx(200.0)


def test_values_that_cannot_be_told_apart_by_prompt_are_not_paired() -> None:
    assert by_prompt(series(samples=((100.0, 300.0),)), record().cells[0]) == {}


def test_the_work_of_a_side_is_taken_over_all_repetitions() -> None:
    work = Work(prompt_tokens=300, output_tokens=96, preemptions=1, finish_reasons={"length": 2, "stop": 1})
    one = Repetition(sent=4, ok=3, failed=1, prompt_ids=("a", "b", "c", "d"), work=work)
    base = record()
    base = replace(base, cells=(replace(base.cells[0], repetitions=(one, one)),))
    side = side_of(base, "initial", "chat").work
    assert (side.sent, side.failed, side.preemptions) == (8, 2, 2.0)
    assert (side.prompt_tokens, side.output_tokens) == (100.0, 32.0)
    assert side.finish == pytest.approx({"length": 2 / 3, "stop": 1 / 3})


def test_work_that_is_unknown_once_is_unknown() -> None:
    base = record()
    ones = (Repetition(ok=1, work=Work(output_tokens=5)), Repetition(ok=1))
    base = replace(base, cells=(replace(base.cells[0], repetitions=ones),))
    assert side_of(base, "initial", "chat").work.output_tokens is None


def with_other_arguments(head: RunRecord, hit_rate: float, **arguments: int) -> RunRecord:
    cell = head.by_cell["fp8", "chat"]
    software = replace(cell.environment.software, engine_args={"max-model-len": 4096, **arguments})
    other = replace(cell, environment=replace(cell.environment, software=software))
    key = SeriesKey("fp8", "chat", "prefix_hit_rate")
    return replace(
        head,
        cells=tuple(other if one == cell else one for one in head.cells),
        series=tuple(replace(one, value=hit_rate) if one.key == key else one for one in head.series),
    )


def test_other_flags_may_change_the_cache_hits_and_are_judged_by_the_time() -> None:
    head = with_other_arguments(
        made_up("head", Truth(seed=2, slower="fp8", ttft=1.6)), 0.1, **{"max-num-seqs": 1}
    )
    one = compared(head, BASE).of(SLOWER)
    assert one is not None
    assert one.comparison.change is Change.REGRESSED


def test_other_cache_hits_under_the_same_flags_are_other_work() -> None:
    head = with_other_arguments(made_up("head", Truth(seed=2, slower="fp8", ttft=1.6)), 0.1)
    one = compared(head, BASE).of(SLOWER)
    assert one is not None
    assert one.comparison.change is Change.INCONCLUSIVE
    assert "cache hit rate" in one.comparison.reason


def test_a_number_that_means_nothing_is_no_value_of_a_side() -> None:
    bad = record(series(), series(metric="ttft_p95", status=SeriesStatus.INVALID, reasons=("throttled",)))
    side = side_of(bad, "initial", "chat")
    assert dict(side.values) == {"ttft_p50": 200.0}
    assert dict(side.unavailable) == {"ttft_p95": "throttled"}


def test_a_real_engine_is_given_the_noise_that_boots_on_such_hardware_showed() -> None:
    def noise(where: Environment, **facts: Any) -> BootNoise:
        made = record(env=where)
        (cell,) = made.cells
        made = replace(made, cells=(replace(cell, facts=EngineFacts(**facts)),))
        return Rules().of(made, SeriesKey("initial", "chat", "ttft_p50")).boots

    gpu = environment()
    cpu = replace(gpu, hardware=replace(gpu.hardware, gpu_names=()))
    golden = replace(cpu, software=replace(cpu.software, torch_version=None))
    assert (noise(gpu), noise(cpu), noise(golden)) == (GPU_BOOTS, CPU_BOOTS, STEADY_BOOTS)
    # Of a server that someone else runs nobody knows torch.
    assert noise(golden, external=True) is CPU_BOOTS
    told = replace(golden, software=replace(golden.software, vllm_version="0.32.0+golden"))
    assert noise(told, external=True) is STEADY_BOOTS
