# SPDX-License-Identifier: Apache-2.0
"""A reviewer reads the verdict first, then the table, then what differs; the rest is folded away."""

from dataclasses import replace
from functools import cache

from tests.unit.history.synthetic import Truth, made_up
from tests.unit.report.samples import ORDER, base_run, compared, slower_run, verdict
from vllm_perf.report import words
from vllm_perf.report.build import build_report
from vllm_perf.report.markdown import escape, markdown
from vllm_perf.report.model import Report
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Status


@cache
def report() -> Report:
    head = slower_run()
    budgets = {("fp8", "chat"): (verdict(Status.FAIL),)}
    return build_report(head, compared(head, base_run()), order=ORDER, budgets=budgets)


def test_the_order_is_verdict_table_moved_differs_and_the_rest() -> None:
    text = markdown(report())
    places = [
        text.index(words)
        for words in (
            "## 🔴 Regressed",
            "| 🔴 regressed | **ttft",
            "**What moved**",
            "**What differs**",
            "<details>",
        )
    ]
    assert places[0] == 0
    assert places == sorted(places)


def test_a_row_holds_interval_bar_allowed_change_and_floor() -> None:
    line = next(line for line in markdown(report()).splitlines() if line.startswith("| 🔴"))
    assert "…" in line
    assert "`·····┊····│····┊····▸`" in line
    assert line.endswith(f"| {words.percent(Policy().allowed)} | not learnt |")


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    tables = [line.replace("\\|", "") for line in markdown(report()).splitlines() if line.startswith("|")]
    counts = {line.count("|") for line in tables}
    assert counts == {8, 12, 3}  # comparisons, ladder, facts


def test_names_cannot_break_the_table() -> None:
    assert escape("a|b\n<c> `d` *e*") == "a\\|b \\<c\\> \\`d\\` \\*e\\*"
    head = replace(slower_run(), command="run | sh <img src=x>")
    text = markdown(build_report(head, compared(head, base_run())))
    assert "sh \\<img" in text
    assert "run \\| sh" in text


def test_folded_parts_are_closed_again() -> None:
    text = markdown(report())
    assert text.count("<details>") == text.count("</details>") >= 3


def test_series_without_a_partner_are_not_folded() -> None:
    head = replace(slower_run(), series=tuple(one for one in slower_run().series if one.engine != "initial"))
    text = markdown(build_report(head, compared(head, base_run())))
    assert text.index("**Without a partner**") < text.index("<details>")


def test_a_good_run_has_a_green_headline() -> None:
    text = markdown(build_report(base_run(), budgets={("fp8", "chat"): (verdict(Status.PASS),)}))
    assert text.startswith("## 🟢 Within budget")


def test_an_undecided_row_says_why() -> None:
    head = made_up("head", Truth(seed=2))
    text = markdown(build_report(head, compared(head, base_run())))
    assert "🟡 inconclusive" in text


def test_many_gating_metrics_are_cut_and_folded() -> None:
    whole = report()
    many = replace(whole, comparisons=whole.comparisons * 3)
    text = markdown(many)
    assert "more gating metrics, none worse than these" in text
    assert "<summary>All gating metrics</summary>" in text
