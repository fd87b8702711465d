# SPDX-License-Identifier: Apache-2.0
"""Whether prefix caching does what the configuration says, from the server's own counters, on real vLLM."""

import pytest

from vllm_perf.pytest_plugin.api import Perf


@pytest.mark.perf_metrics("prefix_hit_rate", workload=("chat", "unique"))
def test_prefix_cache_hits_what_it_should(perf: Perf) -> None:
    """High with a common prompt and caching on; no hit at all with caching off or nothing in common."""
    perf.check_hit_rate()
