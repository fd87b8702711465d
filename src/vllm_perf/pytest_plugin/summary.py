# SPDX-License-Identifier: Apache-2.0
"""Write what a finished session found into pytest's terminal summary."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vllm_perf.pytest_plugin.finish import Ending


def show_summary(ending: "Ending", reporter: pytest.TerminalReporter) -> None:
    """Show the results."""
    reporter.section("vllm-perf")
    for result in ending.results:
        for name in (
            "boot_time",
            "ttft_mean",
            "ttft_p50",
            "ttft_p95",
            "tpot_mean",
            "output_throughput",
            "prefix_hit_rate",
        ):
            one = result.find(name)
            if one is not None:
                reporter.write_line(
                    f"{result.engine:24} {result.workload:10} {name:20} {one.value} [{one.low}..{one.high}] {one.status} {one.reasons}"
                )
        for line in result.invalid:
            reporter.write_line(f"   invalid: {line}")
        if result.failure:
            reporter.write_line(f"{result.engine} {result.workload}: {result.failure}")
    reporter.write_line(f"recorded: {ending.path}")
