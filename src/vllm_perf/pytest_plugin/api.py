# SPDX-License-Identifier: Apache-2.0
"""What a perf test may ask of its ``perf`` fixture; light enough to import while collecting."""

from typing import Protocol


class Perf(Protocol):
    """The judge of one test; every method ends in a pass, or fails the test with an explanation."""

    def check(self) -> None:
        """Measure the case, then hold it against its budgets and its baseline."""

    def check_gain(self) -> None:
        """Hold the last rung against the first: every budget that names another engine."""

    def check_hit_rate(self) -> None:
        """Hold the prefix cache's counters against what the engine and the workload say."""

    def check_boot(self) -> None:
        """Boot the engine; it must come up and run what was asked."""


class PerfGate(Protocol):
    """The judge of one gating metric of ``--perf-gate``."""

    def check(self) -> None:
        """Fail where head is slower than base, or where nobody knows."""
