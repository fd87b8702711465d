# SPDX-License-Identifier: Apache-2.0
"""The gate's runner: order, limits, spoiled pairs, confirmation, and going on after a kill."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.gate.gate_fakes import FakeLab, cell, deciding, decision, runner
from vllm_perf.engine.throttle import POWER_CAP
from vllm_perf.gate.boot import Slot
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Outcome
from vllm_perf.lab.result import CellResult
from vllm_perf.spec.base import SpecError
from vllm_perf.verdict.types import Change

SAME, SLOWER = decision(Change.SAME), decision(Change.REGRESSED)
UNSURE = decision(Change.INCONCLUSIVE, clear=False)


def journal(folder: Path) -> Journal:
    return Journal.open(folder, {"what": "fake"}, 1_000.0)


def gate(folder: Path, lab: FakeLab, decide: Any, **limits: Any) -> Outcome:
    return runner(lab, journal(folder), decide, **limits).run()


def test_boots_are_interleaved_a_b_b_a(tmp_path: Path) -> None:
    lab = FakeLab()
    gate(tmp_path, lab, deciding(SAME), min_pairs=4)
    assert lab.order == "ABBAABBA"


def test_a_clear_verdict_ends_the_gate_at_the_least_number_of_pairs(tmp_path: Path) -> None:
    outcome = gate(tmp_path, FakeLab(), deciding(SAME), min_pairs=3)
    assert (len(outcome.pairs), outcome.stopped) == (3, "the verdict was clear after 3 pairs")


def test_an_open_verdict_goes_on_to_the_limit_of_pairs(tmp_path: Path) -> None:
    outcome = gate(tmp_path, FakeLab(), deciding(UNSURE), min_pairs=2, max_pairs=5)
    assert (len(outcome.pairs), outcome.stopped) == (5, "the limit of 5 pairs was reached")


def test_no_pair_is_begun_that_would_pass_the_limit_of_minutes(tmp_path: Path) -> None:
    lab = FakeLab()
    outcome = gate(tmp_path, lab, deciding(UNSURE), max_pairs=99, max_minutes=0.5)
    assert len(lab.booted) < 2 * 99
    assert "would have passed the limit of 0.5 minutes" in outcome.stopped


def test_a_flagged_workload_is_confirmed_by_fresh_boots_of_that_workload_alone(tmp_path: Path) -> None:
    lab = FakeLab()
    outcome = gate(tmp_path, lab, deciding(SLOWER), min_pairs=2, confirm_pairs=2)
    assert [slot.workloads for slot in lab.booted if slot.phase == "confirm"] == [("chat",)] * 4
    assert (len(outcome.pairs), len(outcome.confirming)) == (2, 2)


def test_nothing_is_confirmed_when_nothing_is_flagged(tmp_path: Path) -> None:
    assert gate(tmp_path, FakeLab(), deciding(SAME)).confirming == ()


def test_what_the_fresh_pairs_say_is_what_counts(tmp_path: Path) -> None:
    outcome = gate(tmp_path, FakeLab(), deciding(SLOWER, SLOWER, UNSURE), min_pairs=2)
    assert outcome.decision.change is Change.INCONCLUSIVE


THROTTLED = "GPU: GPU 0 throttled: hardware slowdown in 3 of 40 samples; let it cool"


def throttled_once(slot: Slot) -> tuple[CellResult, ...]:
    return (cell(invalid=(THROTTLED,) if slot.pair == 1 and slot.attempt == 0 else ()),)


def test_a_throttled_pair_is_measured_again_both_sides(tmp_path: Path) -> None:
    lab = FakeLab(answer=throttled_once)
    outcome = gate(tmp_path, lab, deciding(SAME), min_pairs=3)
    assert [(slot.side, slot.attempt) for slot in lab.booted if slot.pair == 1] == [
        ("head", 0),
        ("base", 0),
        ("head", 1),
        ("base", 1),
    ]
    assert outcome.pairs[1].slot.attempt == 1
    assert "pair 2: base, chat: GPU: GPU 0 throttled" in outcome.spoiled[0]


def test_a_fault_that_would_come_again_is_not_measured_again(tmp_path: Path) -> None:
    lab = FakeLab(answer=lambda slot: (cell(invalid=("OUTPUT_LENGTH: 3 tokens instead of 16",)),))
    outcome = gate(tmp_path, lab, deciding(UNSURE))
    assert lab.order == "AB"
    assert outcome.stopped.startswith(
        "nothing that was measured is worth judging: pair 1: base, chat: OUTPUT"
    )


@pytest.mark.parametrize(
    ("base_mhz", "head_mhz", "capped", "attempts"),
    [(1980.0, 1960.0, 0, 1), (1980.0, 1800.0, 0, 3), (1980.0, 1800.0, 4, 1)],
)
def test_sides_at_unlike_clocks_are_measured_again_unless_the_power_cap_explains_it(
    tmp_path: Path, base_mhz: float, head_mhz: float, capped: int, attempts: int
) -> None:
    def answer(slot: Slot) -> tuple[CellResult, ...]:
        mhz = base_mhz if slot.side == "base" else head_mhz
        return (cell(telemetry={"gpus.0.sm_mhz.median": mhz, f"gpus.0.throttle.{POWER_CAP}": capped}),)

    lab = FakeLab(answer=answer)
    gate(tmp_path, lab, deciding(SAME), min_pairs=2)
    assert len([slot for slot in lab.booted if slot.pair == 0 and slot.side == "base"]) == attempts


class Killed(BaseException):
    """Stand for a kill: nothing catches it."""


def killed_at(boots: int) -> FakeLab:
    lab = FakeLab()

    def answer(slot: Slot) -> tuple[CellResult, ...]:
        if len(lab.booted) > boots:
            raise Killed
        return (cell(ttft_ms=100.0 + len(lab.booted)),)

    lab.answer = answer
    return lab


@pytest.mark.parametrize("boots", range(6))
def test_killed_in_the_middle_no_finished_boot_is_measured_twice(tmp_path: Path, boots: int) -> None:
    with pytest.raises(Killed):
        gate(tmp_path, killed_at(boots), deciding(SAME))
    lab = FakeLab()
    outcome = gate(tmp_path, lab, deciding(SAME))
    assert len(lab.booted) == 6 - boots
    assert (len(outcome.pairs), outcome.resumed_boots) == (3, boots)


def test_killed_while_confirming_the_main_pairs_stand(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        gate(tmp_path, killed_at(5), deciding(SLOWER), min_pairs=2)
    lab = FakeLab()
    outcome = gate(tmp_path, lab, deciding(SLOWER), min_pairs=2)
    assert {slot.phase for slot in lab.booted} == {"confirm"}
    assert (len(lab.booted), len(outcome.confirming)) == (3, 2)


def test_a_gate_that_ended_is_measured_anew(tmp_path: Path) -> None:
    gate(tmp_path, FakeLab(), deciding(SAME), min_pairs=2)
    lab = FakeLab()
    gate(tmp_path, lab, deciding(SAME), min_pairs=2)
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
