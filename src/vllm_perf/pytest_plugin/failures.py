# SPDX-License-Identifier: Apache-2.0
"""How a perf test ends when it does not pass; each carries the whole explanation and no traceback.

PerfOutcome
├── BudgetFailed     a budget was missed, or a comparison found a regression (exit code 1)
├── NoVerdict        the run proves nothing either way (exit code 10), never a pass
└── LabBroken        nothing could be measured (exit code 11)
"""

from _pytest.outcomes import Failed


class PerfOutcome(Failed):
    """Fail a test with an explanation; ``kind`` travels with the report.

    ``pytest.fail.Exception`` is this class; its typed name is private.
    """

    kind = "failed"

    def __init__(self, explanation: str) -> None:
        """Show the explanation and nothing else."""
        super().__init__(explanation, pytrace=False)


class BudgetFailed(PerfOutcome):
    """Report a missed budget or a regression."""

    kind = "failed"


class NoVerdict(PerfOutcome):
    """Report a measurement that proves nothing."""

    kind = "no verdict"


class LabBroken(PerfOutcome):
    """Report a lab in which nothing could be measured."""

    kind = "lab broken"
