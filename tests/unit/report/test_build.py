# SPDX-License-Identifier: Apache-2.0
"""A report holds what was measured and what changed; its headline is the worst of it."""

from dataclasses import replace

import pytest

from tests.unit.history.builders import record, series
from tests.unit.history.synthetic import Truth, made_up
from tests.unit.report.samples import ORDER, base_run, compared, slower_run, verdict
from vllm_perf.history.record import Cell, RunRecord, SeriesStatus
from vllm_perf.report.build import build_report
from vllm_perf.report.model import Headline, LadderRow, Report
from vllm_perf.verdict.types import Change, Status


def rows(report: Report) -> dict[str, LadderRow]:
    (ladder,) = report.ladders
    return {row.engine: row for row in ladder.rows}


def test_a_regression_is_the_headline_with_its_size() -> None:
    report = build_report(slower_run(), compared(slower_run(), base_run()))
    assert report.headline is Headline.REGRESSED
    assert report.sentence.startswith("ttft_p50[fp8-chat] by +4")


def test_a_regression_that_no_test_fails_on_is_said_to_be_seen_only() -> None:
    told = compared(slower_run(), base_run())
    unseen = build_report(slower_run(), told, ended={"passed": ["fine"]})
    assert unseen.headline is Headline.REGRESSED
    assert unseen.sentence.endswith("so the exit code does not say it)")
    failed = build_report(slower_run(), told, ended={"passed": ["fine"], "failed": ["ttft_p50 regressed"]})
    assert "exit code" not in failed.sentence


def test_a_run_of_which_nothing_could_be_judged_says_why() -> None:
    def burst(one: RunRecord) -> RunRecord:
        def at_once(cell: Cell) -> Cell:
            asked = replace(cell.environment.workload, concurrency=100)
            return replace(cell, environment=replace(cell.environment, workload=asked))

        return replace(one, cells=tuple(at_once(cell) for cell in one.cells))

    report = build_report(burst(slower_run()), compared(burst(slower_run()), burst(base_run())))
    assert report.headline is Headline.UNKNOWN
    assert report.sentence.startswith("nothing could be judged; shown, not judged: ")
    assert "at 100 at once, sent once" in report.sentence


def test_a_broken_lab_comes_before_everything() -> None:
    report = build_report(slower_run(), compared(slower_run(), base_run()), failures={"awq": "out of memory"})
    assert report.headline is Headline.LAB_BROKEN
    assert report.problems == ("awq: out of memory",)


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        (Status.FAIL, Headline.OVER_BUDGET),
        (Status.NO_VERDICT, Headline.UNKNOWN),
        (Status.PASS, Headline.WITHIN_BUDGET),
    ],
)
def test_without_a_comparison_the_budgets_decide(status: Status, headline: Headline) -> None:
    report = build_report(base_run(), budgets={("fp8", "chat"): (verdict(status),)})
    assert report.headline is headline
    assert rows(report)["fp8"].budget is status


def test_a_budget_missed_beside_an_unchanged_run_is_still_missed() -> None:
    head = made_up("head", Truth(seed=1))
    report = build_report(
        head, compared(head, base_run()), budgets={("fp8", "chat"): (verdict(Status.FAIL),)}
    )
    assert report.headline is Headline.OVER_BUDGET


def test_the_first_run_creates_the_baseline() -> None:
    assert build_report(base_run(), compared(base_run())).headline is Headline.CREATED


def test_a_run_alone_is_only_measured() -> None:
    assert build_report(base_run()).headline is Headline.MEASURED


def test_a_run_that_has_no_partner_at_all_is_no_verdict() -> None:
    other = replace(base_run(), run_id="other")
    head = record(series(engine="new"), run_id="head")
    report = build_report(head, compared(head, other))
    assert report.headline is Headline.UNKNOWN
    assert report.sentence.startswith(
        "nothing could be compared: ttft_p50[new-chat]: new: none of the 1 stored"
    )


def test_a_doubt_that_passes_is_not_called_no_verdict() -> None:
    head = made_up("head", Truth(seed=2))
    told = compared(head, base_run())
    passed = build_report(head, told, ended={"passed": ["fine"]})
    assert passed.headline is Headline.NO_REGRESSION
    assert "undecided" in passed.sentence
    asked = build_report(head, told, ended={"passed": ["fine"], "no verdict": ["ttft_p50: too few"]})
    assert asked.headline is Headline.UNKNOWN
    new = record(series(engine="new"), run_id="head")
    alone = build_report(new, compared(new, replace(base_run(), run_id="other")), ended={"passed": ["fine"]})
    assert alone.headline is Headline.NOT_COMPARED


def test_a_budget_without_a_verdict_that_no_test_asked_for_is_not_called_kept() -> None:
    budgets = {("fp8", "chat"): (verdict(Status.PASS), verdict(Status.NO_VERDICT, "tok"))}
    report = build_report(base_run(), budgets=budgets, ended={"passed": ["fine"]})
    assert report.headline is Headline.MEASURED
    assert report.sentence == "1 of 2 budgets kept; no test asked for the rest"


def test_what_a_test_failed_on_is_the_headline_whatever_it_was() -> None:
    report = build_report(base_run(), ended={"passed": ["fine"], "failed": ["hit rate 0.1 is outside"]})
    assert (report.headline, report.sentence) == (Headline.FAILED, "hit rate 0.1 is outside")
    unclear = build_report(base_run(), ended={"no verdict": ["foreign traffic"]})
    assert (unclear.headline, unclear.sentence) == (Headline.UNKNOWN, "foreign traffic")


def test_an_undecided_comparison_says_how_many_pairs_would_decide() -> None:
    head = made_up("head", Truth(seed=2))
    report = build_report(head, compared(head, base_run()))
    assert report.headline is Headline.UNKNOWN
    assert "of boots would decide (`vllm-perf gate`" in report.sentence


def test_rungs_come_in_the_ladders_order_with_their_flags() -> None:
    report = build_report(base_run(), order=("fp8", "initial", "caching"))
    assert list(rows(report)) == ["fp8", "initial", "caching"]
    assert rows(report)["initial"].flags == "--no-enable-prefix-caching"
    assert rows(report)["caching"].flags == "--enable-prefix-caching"
    assert rows(report)["fp8"].flags == "--kv-cache-dtype fp8"


def test_a_gain_is_over_the_rung_before_and_over_the_first() -> None:
    found = rows(build_report(base_run(), order=ORDER))
    first, caching, fp8 = (found[name].tokens_per_s for name in ORDER)
    assert first is not None
    assert caching is not None
    assert fp8 is not None
    assert found["initial"].gain_first is None
    before, whole = found["fp8"].gain_before, found["fp8"].gain_first
    assert before is not None
    assert whole is not None
    assert before.value == pytest.approx(fp8 / caching)
    assert whole.value == pytest.approx(fp8 / first)


def test_a_rung_that_did_not_boot_keeps_its_place_and_passes_no_gain_on() -> None:
    report = build_report(without("initial"), order=ORDER, failures={"initial": "out of memory"})
    found = rows(report)
    assert list(found) == list(ORDER)
    assert found["initial"].problem == "out of memory"
    assert found["caching"].gain_first is None
    assert found["fp8"].gain_before is not None


def without(engine: str) -> RunRecord:
    whole = base_run()
    return replace(
        whole,
        cells=tuple(one for one in whole.cells if one.engine != engine),
        series=tuple(one for one in whole.series if one.engine != engine),
    )


def test_numbers_that_mean_nothing_are_not_shown() -> None:
    bad = record(series(status=SeriesStatus.INVALID, reasons=("the GPU throttled",)))
    (row,) = rows(build_report(bad)).values()
    assert row.ttft_p50_ms is None
    assert row.problem == "the GPU throttled"
    assert build_report(bad).problems == ("initial under chat: the GPU throttled",)


def test_the_boots_are_no_rung() -> None:
    boots = record(series(), series(workload="boot", metric="boot_time", unit="s"))
    assert [ladder.workload for ladder in build_report(boots).ladders] == ["chat"]


def test_what_differs_is_told_once() -> None:
    report = build_report(slower_run(), compared(slower_run(), base_run()))
    assert report.differs == ("software.vllm_version: 0.32.0 → 0.33.0",)


def test_what_differs_for_some_engines_names_them() -> None:
    head = slower_run()
    cell = head.by_cell["fp8", "chat"]
    software = replace(cell.environment.software, engine_args={"max-model-len": 8192})
    other = replace(cell, environment=replace(cell.environment, software=software))
    head = replace(head, cells=tuple(other if one == cell else one for one in head.cells))
    assert (
        "software.engine_args.max-model-len: 4096 → 8192 (fp8)"
        in build_report(head, compared(head, base_run())).differs
    )


def test_distributions_are_of_gating_medians_on_both_sides() -> None:
    report = build_report(slower_run(), compared(slower_run(), base_run()))
    assert [one.name for one in report.distributions][:2] == [
        "ttft_p50[initial-chat]",
        "tpot_p50[initial-chat]",
    ]
    assert all(len(one.base) == len(one.head) == 64 for one in report.distributions)


def test_the_worst_comparison_comes_first() -> None:
    report = build_report(slower_run(), compared(slower_run(), base_run()))
    assert report.gating[0].name == "ttft_p50 of fp8 under chat"
    assert [row.comparison.change for row in report.gating].count(Change.REGRESSED) == 2
    assert all(not row.comparison.gating for row in report.others)


def test_the_facts_say_where_it_was_measured() -> None:
    facts = dict(build_report(slower_run()).facts)
    assert facts["hardware"] == "NVIDIA H200"
    assert facts["vLLM"] == "0.33.0"
    assert facts["command"] == "pytest tests/perf --benchmark-compare"


def test_a_faster_run_is_improved_when_nothing_else_is_open() -> None:
    head = record(series(value=100.0), run_id="head")
    whole = compared(head, record(run_id="base"))
    better = replace(whole.compared[0].comparison, change=Change.IMPROVED, gating=True)
    one = replace(whole, compared=(replace(whole.compared[0], comparison=better),))
    report = build_report(head, one)
    assert (report.headline, report.sentence) == (Headline.IMPROVED, "1 series compared")
