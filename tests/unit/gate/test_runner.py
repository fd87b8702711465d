# SPDX-License-Identifier: Apache-2.0
"""The gate's runner: order, limits, and going on after a kill."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.gate.gate_fakes import FakeLab, after, boot, decision, plain, runner, state
from vllm_perf.gate.boot import Slot
from vllm_perf.gate.decision import Decision
from vllm_perf.gate.journal import HALF_PAIR_KEEPS_S, Journal
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Decide, Outcome
from vllm_perf.lab.result import CellResult
from vllm_perf.spec.base import SpecError
from vllm_perf.verdict.sequential import Next
from vllm_perf.verdict.types import Change

SAME = decision(Change.SAME)


def journal(folder: Path, now_s: float = 1_000.0) -> Journal:
    return Journal.open(folder, {"what": "fake"}, now_s)


def gate(folder: Path, lab: FakeLab, decide: Decide, **limits: Any) -> Outcome:
    return runner(lab, journal(folder), decide, Limits(**limits)).run()


def test_boots_are_interleaved_a_b_b_a(tmp_path: Path) -> None:
    lab = FakeLab()
    gate(tmp_path, lab, after(4, SAME))
    assert lab.order == "ABBAABBA"


def test_the_gate_ends_when_everything_is_decided(tmp_path: Path) -> None:
    outcome = gate(tmp_path, FakeLab(), after(3, SAME))
    assert (len(outcome.pairs), outcome.stopped) == (3, "decided after 3 pairs")
    assert outcome.decision.change is Change.SAME


def test_a_gate_that_ran_out_of_pairs_does_not_say_that_it_decided(tmp_path: Path) -> None:
    spent = Decision(workloads={"chat": state(Change.INCONCLUSIVE, pairs=4, missing=2)})
    outcome = gate(tmp_path / "spent", FakeLab(), after(4, spent), max_pairs=4)
    assert outcome.stopped == "the limit of 4 pairs was reached"
    hopeless = Decision(workloads={"chat": state(Change.INCONCLUSIVE, pairs=0, missing=None)})
    outcome = gate(tmp_path / "hopeless", FakeLab(), after(1, hopeless), max_pairs=4)
    assert outcome.stopped == "measuring on after 1 pairs would not help"


def test_only_workloads_that_are_still_open_are_sent_again(tmp_path: Path) -> None:
    def decide(pairs: Any) -> Decision:
        step = Next.STOP if len(pairs) >= 2 else Next.MEASURE
        last = Next.STOP if len(pairs) >= 3 else Next.MEASURE
        quick = state(Change.SAME, Next.MEASURE if not pairs else step)
        return Decision(workloads={"chat": quick, "unique": state(Change.INCONCLUSIVE, last)})

    lab = FakeLab()
    gate(tmp_path, lab, decide)
    sent = [slot.workloads for slot in lab.booted if slot.side == "base"]
    assert sent == [("chat", "unique"), ("chat", "unique"), ("unique",)]


def test_no_pair_is_begun_that_would_pass_the_limit_of_minutes(tmp_path: Path) -> None:
    outcome = gate(tmp_path, FakeLab(), after(99, SAME), max_minutes=0.25)
    assert 0 < len(outcome.pairs) < 99
    assert outcome.stopped == "another pair (2 s) would have passed the limit of 0.25 minutes"
    assert outcome.decision.change is Change.INCONCLUSIVE


def test_a_flag_that_there_was_no_time_to_confirm_is_no_verdict(tmp_path: Path) -> None:
    flagged = decision(Change.REGRESSED, Next.CONFIRM)
    outcome = gate(tmp_path, FakeLab(), lambda _: flagged, max_minutes=0.001)
    assert outcome.decision.change is Change.INCONCLUSIVE
    assert outcome.decision.missing_pairs == 1


class Killed(BaseException):
    """Stand for a kill: nothing catches it."""


def killed_at(boots: int) -> FakeLab:
    lab = FakeLab()

    def answer(slot: Slot) -> tuple[CellResult, ...]:
        if len(lab.booted) > boots:
            raise Killed
        return plain(slot)

    lab.answer = answer
    return lab


@pytest.mark.parametrize("boots", range(6))
def test_killed_in_the_middle_no_finished_boot_is_measured_twice(tmp_path: Path, boots: int) -> None:
    killed = killed_at(boots)
    with pytest.raises(Killed):
        gate(tmp_path, killed, after(3, SAME))
    lab = FakeLab()
    outcome = gate(tmp_path, lab, after(3, SAME))
    assert [(slot.pair, slot.side) for slot in killed.booted[:boots] + lab.booted] == [
        (0, "base"),
        (0, "head"),
        (1, "head"),
        (1, "base"),
        (2, "base"),
        (2, "head"),
    ]
    assert (len(outcome.pairs), outcome.resumed_boots) == (3, boots)


def test_half_a_pair_that_went_stale_is_measured_again_on_both_sides(tmp_path: Path) -> None:
    old = journal(tmp_path)
    old.add(boot("base", 0, started_s=1_000.0 - HALF_PAIR_KEEPS_S - 11))
    lab = FakeLab()
    gate(tmp_path, lab, after(1, SAME))
    assert lab.order == "AB"


def test_a_gate_that_ended_is_measured_anew(tmp_path: Path) -> None:
    gate(tmp_path, FakeLab(), after(2, SAME))
    lab = FakeLab()
    gate(tmp_path, lab, after(2, SAME))
    assert lab.order == "ABBA"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min_pairs": 1}, "--min-pairs: at least 2"),
        ({"min_pairs": 4, "max_pairs": 3}, "--max-pairs 3 is less than --min-pairs 4"),
        ({"max_minutes": 0}, "--max-minutes must be more than 0"),
    ],
)
def test_limits_that_contradict_themselves_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Limits(**limits)
