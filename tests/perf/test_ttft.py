# SPDX-License-Identifier: Apache-2.0
"""Time to first token, on real vLLM (or the golden engine with --perf-golden)."""

import pytest

from vllm_perf.pytest_plugin.api import Perf


@pytest.mark.perf_metrics("ttft_mean", "ttft_p50", "ttft_p95")
def test_first_token_comes_in_time(perf: Perf) -> None:
    """TTFT keeps its budget and is no slower than its baseline."""
    perf.check()
