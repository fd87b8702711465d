# SPDX-License-Identifier: Apache-2.0
"""Booting: the engine comes up, runs what was asked, and takes no longer than before, on real vLLM."""

import pytest

from vllm_perf.pytest_plugin.api import Perf


@pytest.mark.perf_metrics("boot_time", workload="boot")
def test_engine_boots_as_configured(perf: Perf) -> None:
    """A boot that dies, hangs or falls back silently fails here with its root cause."""
    perf.check_boot()
