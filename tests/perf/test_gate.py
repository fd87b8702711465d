# SPDX-License-Identifier: Apache-2.0
"""Head against base, booted in turn: only with --perf-gate BASE..HEAD, and then nothing else is measured."""

from vllm_perf.pytest_plugin.api import PerfGate


def test_head_is_no_slower_than_base(perf_gate: PerfGate) -> None:
    """No gating metric got worse by more than is allowed; what the pairs do not decide is no verdict."""
    perf_gate.check()
