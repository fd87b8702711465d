# SPDX-License-Identifier: Apache-2.0
"""A terminal gets colours and borders that fit, a pipe gets plain lines, and neither ever fails to print."""

import io
import re
from functools import cache

import pytest

from tests.unit.history.builders import record, series
from tests.unit.report.samples import ORDER, base_run, compared, slower_run, verdict
from vllm_perf.history.record import SeriesStatus
from vllm_perf.report.build import build_report
from vllm_perf.report.model import Report
from vllm_perf.report.terminal import print_report, render
from vllm_perf.verdict.types import Status

ESCAPES = re.compile("\x1b\\[[0-9;]*m")


@cache
def report() -> Report:
    head = slower_run()
    budgets = {("fp8", "chat"): (verdict(Status.FAIL), verdict(Status.PASS, "tok"))}
    return build_report(head, compared(head, base_run()), order=ORDER, budgets=budgets)


def test_a_pipe_gets_no_escapes_and_no_trailing_blanks() -> None:
    text = render(report(), terminal=False)
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "\u2500" not in text


def test_the_ladder_shows_every_rung_with_flags_and_gains() -> None:
    text = render(report(), terminal=False)
    for words in ("+ fp8 KV cache", "--kv-cache-dtype fp8", "NOT MET", "on the last", "95 %"):
        assert words in text


def test_the_verdict_is_the_last_line() -> None:
    assert render(report(), terminal=False).splitlines()[-1].startswith("REGRESSED: ttft_p50[fp8-chat] by +")


def test_a_regression_says_what_moved_and_a_missed_budget_why() -> None:
    text = render(report(), terminal=False)
    assert "ttft_p50[fp8-chat] regressed: ttft_p50 205.8 -> 296.5 ms: +41.4 %" in text
    assert "  what moved: prefill 200 → 286 ms" in text
    assert "+ fp8 KV cache under chat, ttft_p50: fail: 261 ms, at most 250 is allowed" in text


def test_metrics_that_cannot_turn_red_are_shown_when_asked_for() -> None:
    assert "ttft_mean" not in render(report(), terminal=False)
    assert "ttft_mean" in render(report(), terminal=False, others=True)


@pytest.mark.parametrize("width", [80, 100, 112, 120, 135, 136, 160])
def test_it_fits_the_terminal_and_loses_no_column(width: int) -> None:
    text = ESCAPES.sub("", render(report(), terminal=True, width=width))
    assert max(len(line) for line in text.splitlines()) <= width
    for words in ("NOT MET", "regressed", "+4", "none set", "95 % interval"):
        assert words in text


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in render(report(), terminal=True, width=120)
    assert "\x1b[1;31m" not in render(report(), terminal=True, width=120)


def test_an_encoding_without_the_signs_is_no_error() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", newline="")
    print_report(report(), file)
    file.flush()
    assert b"206 ? 260 ms" in raw.getvalue() or b" ? " in raw.getvalue()


def test_a_report_without_anything_is_one_line() -> None:
    empty = Report(headline=report().headline, sentence="nothing")
    assert render(empty, terminal=False) == "REGRESSED: nothing\n"


def test_numbers_that_mean_nothing_are_no_verdict_in_the_ladder() -> None:
    bad = record(series(status=SeriesStatus.INVALID, reasons=("the GPU throttled",)))
    text = render(build_report(bad), terminal=False)
    assert "no verdict" in text
    assert "initial under chat: the GPU throttled" in text
