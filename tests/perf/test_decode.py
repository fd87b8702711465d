# SPDX-License-Identifier: Apache-2.0
"""What follows the first token: pace and end of each answer, on real vLLM."""

import pytest

from vllm_perf.pytest_plugin.api import Perf


@pytest.mark.perf_metrics("tpot_mean", "tpot_p50", "itl_p50", "itl_p95", "e2el_p50")
def test_answer_flows_and_ends_in_time(perf: Perf) -> None:
    """TPOT, ITL and E2EL keep their budgets and are no slower than their baselines."""
    perf.check()
