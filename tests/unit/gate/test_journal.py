# SPDX-License-Identifier: Apache-2.0
"""The gate's journal: nothing finished is lost, nothing foreign is taken for ours."""

import json
import math
from pathlib import Path

import pytest

from tests.unit.gate.gate_fakes import boot
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
    assert again.pairs()[0].base == boot("base")


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
    (kept,) = tmp_path.glob("gate-*.1.jsonl")
    assert json.loads(kept.read_text().splitlines()[-1]) == {"closed": "same"}


def test_an_unfinished_gate_of_another_day_is_measured_anew(tmp_path: Path) -> None:
    reopened(tmp_path).add(boot("base"))
    assert reopened(tmp_path, NOW + KEEPS_S + 11).boots == []


@pytest.mark.parametrize("text", ["not json\n", "[]\n", "3\n", '{"started_s": "x"}\n', '{"boot": {}}\n', ""])
def test_a_file_that_is_no_journal_is_set_aside(tmp_path: Path, text: str) -> None:
    path = reopened(tmp_path).path
    path.write_text(text)
    assert reopened(tmp_path).boots == []
    assert len(list(tmp_path.iterdir())) == 2


def test_half_a_pair_is_finished_only_while_it_is_fresh(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    journal.add(boot("head"))
    assert journal.half(0, NOW + 10 + HALF_PAIR_KEEPS_S) == boot("head")
    assert journal.half(0, NOW + 11 + HALF_PAIR_KEEPS_S) is None
    assert journal.half(1, NOW) is None


def test_a_boot_measured_again_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    journal.add(boot("base", started_s=NOW))
    journal.add(boot("base", started_s=NOW + 5))
    assert [item.started_s for item in journal.boots] == [NOW + 5]
    assert [item.started_s for item in reopened(tmp_path).boots] == [NOW + 5]


def test_a_pair_lacking_one_side_is_no_pair(tmp_path: Path) -> None:
    journal = reopened(tmp_path)
    for side in ("base", "head"):
        journal.add(boot(side, 0))
    journal.add(boot("head", 1))
    assert [pair.number for pair in journal.pairs()] == [1]


def test_infinite_times_of_failed_requests_survive(tmp_path: Path) -> None:
    reopened(tmp_path).add(boot(ttft_ms=math.inf))
    assert reopened(tmp_path).boots == [boot(ttft_ms=math.inf)]


def test_a_full_disk_is_an_error_and_not_a_silent_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = reopened(tmp_path)
    monkeypatch.setattr("os.write", lambda _file, data: len(data) - 1)
    with pytest.raises(OSError, match="the disk is full"):
        journal.add(boot("base"))
