# SPDX-License-Identifier: Apache-2.0
"""The gate's one word for everything it compared."""

import pytest

from tests.unit.gate.gate_fakes import decision, state
from vllm_perf.gate.decision import EXIT_CODES, Decision, overall
from vllm_perf.verdict.sequential import Next
from vllm_perf.verdict.types import Change

SAME, BETTER = Change.SAME, Change.IMPROVED
WORSE, OPEN = Change.REGRESSED, Change.INCONCLUSIVE


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ([SAME, SAME], SAME),
        ([SAME, BETTER], BETTER),
        ([BETTER, WORSE], WORSE),
        ([OPEN, WORSE], WORSE),
        ([SAME, OPEN], OPEN),
        ([BETTER, OPEN], OPEN),
        ([], OPEN),
    ],
)
def test_one_regression_is_one_and_nothing_unknown_is_same(changes: list[Change], word: Change) -> None:
    assert overall(changes) is word


def test_nothing_more_is_wanted_once_something_is_known_to_be_slower() -> None:
    both = {"chat": state(WORSE), "unique": state(OPEN, Next.MEASURE)}
    assert Decision(workloads=both).open == ()
    unsure = {"chat": state(WORSE, Next.CONFIRM), "unique": state(OPEN, Next.MEASURE)}
    assert Decision(workloads=unsure).open == ("chat", "unique")


def test_the_pairs_still_missing_are_those_of_the_slowest_workload_to_decide() -> None:
    known = {"chat": state(OPEN, missing=2), "unique": state(OPEN, missing=5), "article": state(SAME)}
    assert Decision(workloads=known).missing_pairs == 5
    assert Decision(workloads=known | {"long": state(OPEN, missing=None)}).missing_pairs is None


def test_where_nothing_was_compared_nobody_says_how_many_pairs_are_missing() -> None:
    gave_up = state(OPEN, missing=1, comparisons=(), reason="4 pairs were not valid")
    assert Decision(workloads={"chat": gave_up}).missing_pairs is None


def test_the_reason_names_workload_and_what_decided() -> None:
    assert decision(WORSE).reason == "chat: it is regressed"
    silent = state(OPEN, comparisons=(), reason="3 pairs were not valid")
    assert Decision(workloads={"chat": silent}).reason == "chat: 3 pairs were not valid"
    assert Decision(workloads={}).reason == "nothing was compared"


def test_an_unconfirmed_flag_counts_as_no_verdict_when_the_gate_ends() -> None:
    ended = decision(WORSE, Next.CONFIRM).ended()
    assert ended.change is OPEN
    assert ended.workloads["chat"].comparisons[0].change is OPEN
    assert "no fresh pair was measured to confirm it" in ended.reason


def test_a_confirmed_flag_stays_red_when_the_gate_ends() -> None:
    assert decision(WORSE).ended().change is WORSE


def test_exit_codes_are_those_of_the_contract() -> None:
    assert EXIT_CODES == {SAME: 0, BETTER: 0, WORSE: 1, OPEN: 10}
