# SPDX-License-Identifier: Apache-2.0
"""What collection needs of the history imports neither numpy nor anything that talks to a network."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "ruptures", "aiohttp", "openai", "torch", "vllm", "rich", "jinja2", "_pytest")
LIGHT = (
    "vllm_perf.history.store",
    "vllm_perf.history.record",
    "vllm_perf.history.baseline",
    "vllm_perf.history.reference",
    "vllm_perf.history.benchmark_rows",
    "vllm_perf.history.collect",
    "vllm_perf.history.prune",
    "vllm_perf.spec.history",
)


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_stays_light(module: str) -> None:
    script = f"import sys, {module}; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
