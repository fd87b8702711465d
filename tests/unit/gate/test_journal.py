# SPDX-License-Identifier: Apache-2.0
"""The gate's journal: nothing finished is lost, nothing foreign is taken for ours."""

import json
import math
from pathlib import Path

import pytest

from tests.unit.gate.gate_fakes import boot, cell
from vllm_perf.gate.boot import Boot, Slot
from vllm_perf.gate.journal import HALF_PAIR_KEEPS_S, KEEPS_S, Journal

SAME = {"base": "a", "head": "b"}
NOW = 1_000.0


def reopened(folder: Path, now_s: float = NOW) -> Journal:
    return Journal.open(folder, SAME, now_s)


def test_what_was_measured_is_there_after_a_restart(tmp_path: Path) -> None:
    first = reopened(tmp_path)
    first.add(boot("base"))
    first.add(boot("head"))
    again = reopened(tmp_path)
    assert again.resumed == 2
    assert again.pairs("main")[0].base == boot("base")


def test_a_line_cut_by_a_kill_is_dropped_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    first = reopened(tmp_path)
    first.add(boot("base"))
    first.add(boot("head"))
    whole = first.path.read_bytes()
    first.path.write_bytes(whole[:-20])
    again = reopened(tmp_path)
    assert [item.slot.side for item in again.boots] == ["base"]
    again.add(boot("head"))
    assert first.path.read_bytes() == whole


def test_another_comparison_never_shares_a_journal(tmp_path: Path) -> None:
    reopened(tmp_path).add(boot("base"))
    assert Journal.open(tmp_path, {"base": "a", "head": "c"}, NOW).boots == []


def test_a_finished_gate_is_measured_anew_and_its_journal_kept(tmp_path: Path) -> None:
    first = reopened(tmp_path)
    first.add(boot("base"))
    first.close("same")
    assert reopened(tmp_path).boots == []
    kept = list(tmp_path.glob("gate-*.1.jsonl"))
    assert len(kept) == 1
    assert json.loads(kept[0].read_text().splitlines()[-1]) == {"closed": "same"}


def test_an_unfinished_gate_of_another_day_is_measured_anew(tmp_path: Path) -> None:
    reopened(tmp_path).add(boot("base"))
    assert reopened(tmp_path, NOW + KEEPS_S + 11).boots == []


def test_a_file_that_is_no_journal_is_set_aside(tmp_path: Path) -> None:
    path = reopened(tmp_path).path
    path.write_text("not json\n")
    assert reopened(tmp_path).boots == []
    assert len(list(tmp_path.iterdir())) == 2


def test_half_a_pair_is_finished_only_while_it_is_fresh(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    half = boot("base")
    journal.add(half)
    assert journal.fresh_half(half.slot, NOW + 10 + HALF_PAIR_KEEPS_S) == half
    assert journal.fresh_half(half.slot, NOW + 11 + HALF_PAIR_KEEPS_S) is None


def test_a_boot_measured_again_supersedes_the_one_before(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    journal.add(boot("base", started_s=NOW))
    journal.drop(boot("base").slot)
    journal.add(boot("base", started_s=NOW + 5))
    assert [item.started_s for item in reopened(tmp_path).boots] == [NOW + 5]


def test_the_last_attempt_of_a_pair_counts(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    for attempt in (0, 1):
        journal.add(boot("base", attempt=attempt))
        journal.add(boot("head", attempt=attempt))
    journal.add(boot("base", attempt=2))
    assert [pair.slot.attempt for pair in journal.pairs("main")] == [1]


def test_main_and_confirming_pairs_are_kept_apart(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    for side in ("base", "head"):
        journal.add(boot(side, phase="confirm", workloads=("chat",)))
    assert (len(journal.pairs("main")), len(journal.pairs("confirm"))) == (0, 1)


def test_infinite_times_of_failed_requests_survive(tmp_path: Path) -> None:
    broken = Boot(
        slot=Slot(phase="main", pair=0, side="base"),
        cells=(cell(ttft_ms=math.inf),),
        started_s=NOW,
        took_s=1.0,
    )
    reopened(tmp_path).add(broken)
    assert reopened(tmp_path).boots == [broken]


def test_a_full_disk_is_an_error_and_not_a_silent_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = reopened(tmp_path)
    monkeypatch.setattr("os.write", lambda _file, data: len(data) - 1)
    with pytest.raises(OSError, match="the disk is full"):
        journal.add(boot("base"))
