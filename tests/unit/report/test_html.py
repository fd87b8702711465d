# SPDX-License-Identifier: Apache-2.0
"""The page stands alone, is well-formed, and shows no text as markup."""

import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

from tests.unit.report.samples import ORDER, base_run, compared, slower_run, verdict
from vllm_perf.report.build import build_report
from vllm_perf.report.html import html
from vllm_perf.report.model import Report
from vllm_perf.verdict.types import Status

VOID = {"meta", "br", "line", "rect", "circle", "polyline"}


@cache
def report(command: str = "pytest") -> Report:
    head = replace(slower_run(), command=command)
    budgets = {("fp8", "chat"): (verdict(Status.FAIL),)}
    return build_report(head, compared(head, base_run()), order=ORDER, budgets=budgets)


class Balance(HTMLParser):
    """Check that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """A tag that closes itself opens nothing."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_tag_is_closed() -> None:
    balance = Balance()
    balance.feed(html(report()))
    assert not balance.open


def test_nothing_is_fetched_from_elsewhere() -> None:
    page = html(report())
    assert not re.findall(r"https?://|src=|href=|@import|url\(", page)


def test_text_is_never_markup() -> None:
    page = html(report(command="<script>alert(1)</script>"))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_page_holds_verdict_ladder_comparison_and_distributions() -> None:
    page = html(report())
    for words in (
        "Regressed",
        "Ladder: chat",
        "Against the baseline",
        "Distributions",
        "not met",
        "moved: prefill",
    ):
        assert words in page
    assert page.count('<svg class="distribution"') == len(report().distributions) == 6
    assert page.count('<svg class="interval"') == len(
        [r for r in report().comparisons if r.comparison.low is not None]
    )


def test_a_report_of_almost_nothing_is_a_page() -> None:
    balance = Balance()
    balance.feed(html(Report(headline=report().headline, sentence="nothing")))
    assert not balance.open
