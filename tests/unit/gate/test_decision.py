# SPDX-License-Identifier: Apache-2.0
"""The gate's one word for everything it compared."""

import pytest

from tests.unit.gate.gate_fakes import comparison, decision
from vllm_perf.gate.decision import EXIT_CODES, CellVerdict, Decision, overall
from vllm_perf.verdict.types import Change

SAME, BETTER = Change.SAME, Change.IMPROVED
WORSE, OPEN = Change.REGRESSED, Change.INCONCLUSIVE


@pytest.mark.parametrize(
    ("changes", "unjudged", "word"),
    [
        ([SAME, SAME], False, SAME),
        ([SAME, BETTER], False, BETTER),
        ([BETTER, WORSE], False, WORSE),
        ([OPEN, WORSE], True, WORSE),
        ([SAME, OPEN], False, OPEN),
        ([BETTER, OPEN], False, OPEN),
        ([SAME], True, OPEN),
        ([], False, OPEN),
    ],
)
def test_one_regression_is_one_and_nothing_unknown_is_same(
    changes: list[Change], unjudged: bool, word: Change
) -> None:
    assert overall(changes, unjudged) is word


def test_only_gating_metrics_decide() -> None:
    loud = CellVerdict(workload="chat", comparison=comparison(WORSE), gating=False)
    quiet = CellVerdict(workload="chat", comparison=comparison(SAME))
    both = Decision(cells=(loud, quiet), unjudged={}, clear=True)
    assert (both.change, both.flagged) == (SAME, ())


def test_the_pairs_still_missing_are_those_of_the_slowest_metric_to_decide() -> None:
    cells = tuple(CellVerdict(workload="chat", comparison=comparison(OPEN, count)) for count in (2, 5))
    assert Decision(cells=cells, unjudged={}, clear=False).missing_pairs == 5
    unknown = (*cells, CellVerdict(workload="chat", comparison=comparison(OPEN)))
    assert Decision(cells=unknown, unjudged={}, clear=False).missing_pairs is None


def test_the_reason_names_workload_and_metric() -> None:
    assert decision(WORSE).reason == "chat, ttft_p50: it is regressed"
    none = Decision(cells=(), unjudged={"chat": "throttled"}, clear=False)
    assert none.reason == "chat cannot be judged: throttled"


def test_exit_codes_are_those_of_the_contract() -> None:
    assert EXIT_CODES == {SAME: 0, BETTER: 0, WORSE: 1, OPEN: 10}
