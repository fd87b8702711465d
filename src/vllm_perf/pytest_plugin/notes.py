# SPDX-License-Identifier: Apache-2.0
"""What a reader of the summary must know beside the report: tests without a verdict, rows that are missing.

pytest shows the text of failed tests; *no verdict* and *lab broken* are outcomes of their own, and whatever
the report does not say already is said here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin.bridge import benchmark_session, is_disabled
from vllm_perf.pytest_plugin.failures import BudgetFailed
from vllm_perf.pytest_plugin.judge import why_invalid

MOST_TESTS = 3


def notes(
    results: Iterable[CellResult], outcomes: Mapping[str, Mapping[str, Any]], config: pytest.Config
) -> list[str]:
    """Return the lines; ``outcomes`` is by test id."""
    # A cell that a cap stopped is in no record, so that the report does not say why.
    shown = [(result.failure, why_invalid(result) if result.cell else None) for result in results]
    told = {text for texts in shown for text in texts if text}
    by_reason: dict[str, list[str]] = defaultdict(list)
    for nodeid, outcome in outcomes.items():
        if outcome["kind"] not in ("passed", BudgetFailed.kind) and outcome["explanation"] not in told:
            by_reason[f"{outcome['kind']}: {outcome['explanation']}"].append(nodeid)
    lines = []
    for reason, tests in by_reason.items():
        more = f" and {len(tests) - MOST_TESTS} more" if len(tests) > MOST_TESTS else ""
        lines += [reason, f"  {', '.join(tests[:MOST_TESTS])}{more}"]
    if benchmark_session(config) is not None and is_disabled(config):
        lines.append(
            "pytest-benchmark is switched off (--benchmark-disable): no table and no saved rows of its own; "
            "this run is in the history all the same"
        )
    return lines
