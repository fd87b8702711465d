# SPDX-License-Identifier: Apache-2.0
"""What has no partner is told cell by cell."""

from dataclasses import replace

from tests.unit.history.builders import record, series
from tests.unit.report.samples import base_run, compared
from vllm_perf.report.partners import partner_lines


def test_an_engine_that_was_left_out_is_one_line() -> None:
    head = replace(
        base_run(),
        run_id="head",
        cells=tuple(one for one in base_run().cells if one.engine != "fp8"),
        series=tuple(one for one in base_run().series if one.engine != "fp8"),
    )
    assert partner_lines(head, compared(head, base_run())) == (
        "fp8 under chat, ttft_mean, ttft_p50, ttft_p95, tpot_p50 and 2 more metrics:"
        " was measured for the baseline and is not in this run at all",
    )


def test_a_metric_that_was_lost_is_named() -> None:
    both = record(series(), series(metric="ttft_p95"), run_id="base")
    head = record(series(), run_id="head")
    assert partner_lines(head, compared(head, both)) == (
        "initial under chat, ttft_p95: was measured for the baseline and is not in this run",
    )


def test_a_new_engine_is_one_line_with_the_reason() -> None:
    head = record(series(), series(engine="new"), series(engine="new", metric="ttft_p95"), run_id="head")
    (line,) = partner_lines(head, compared(head, record(run_id="base")))
    assert line.startswith("new under chat, ttft_p50, ttft_p95: new: none of the 1 stored runs has it")
