# SPDX-License-Identifier: Apache-2.0
"""Throughput, and what the ladder's last rung gains over its first, on real vLLM."""

import pytest

from vllm_perf.pytest_plugin.api import Perf


@pytest.mark.perf_metrics("output_throughput", "request_throughput")
def test_throughput_holds(perf: Perf) -> None:
    """Tokens and requests per second keep their budgets and are no lower than their baselines."""
    perf.check()


@pytest.mark.perf_ladder
@pytest.mark.perf_metrics("output_throughput", workload="chat")
def test_last_rung_gains_over_the_first(perf: Perf) -> None:
    """The whole ladder is worth what its budget says (3 times the throughput)."""
    perf.check_gain()
