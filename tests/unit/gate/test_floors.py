# SPDX-License-Identifier: Apache-2.0
"""Noise floors: learnt from boots of one engine, kept per hardware and workload."""

from pathlib import Path

from tests.unit.gate.gate_fakes import cell, pair
from vllm_perf.gate.floors import Floors, boots_of_one_engine
from vllm_perf.history.environment import Hardware

PAIRS = [pair(cell(ttft_ms=100.0 + at), cell(ttft_ms=200.0), number=at + 1) for at in range(4)]


def store(folder: Path, gpu: str = "H200") -> Floors:
    return Floors(folder=folder, hardware=Hardware(gpu_names=(gpu,)))


def test_nothing_is_known_before_anything_was_learnt(tmp_path: Path) -> None:
    assert store(tmp_path).read("chat") == {}


def test_boots_of_one_engine_teach_their_noise_two_by_two(tmp_path: Path) -> None:
    boots = boots_of_one_engine(PAIRS, "chat", same_engine=False)
    assert store(tmp_path).learn("chat", boots) == 2
    assert len(store(tmp_path).read("chat")["ttft_p50"].log_ratios) == 2


def test_what_is_learnt_is_added_to_what_was_known(tmp_path: Path) -> None:
    boots = boots_of_one_engine(PAIRS, "chat", same_engine=False)
    for _ in range(3):
        store(tmp_path).learn("chat", boots)
    assert len(store(tmp_path).read("chat")["ttft_p50"].log_ratios) == 6


def test_another_machine_or_workload_knows_nothing_of_it(tmp_path: Path) -> None:
    store(tmp_path).learn("chat", boots_of_one_engine(PAIRS, "chat", same_engine=False))
    assert store(tmp_path, gpu="H100").read("chat") == {}
    assert store(tmp_path).read("unique") == {}


def test_head_teaches_nothing_unless_it_is_the_same_engine() -> None:
    sides = [boot.slot.side for boot in boots_of_one_engine(PAIRS, "chat", same_engine=False)]
    assert sides == ["base"] * 4
    assert len(boots_of_one_engine(PAIRS, "chat", same_engine=True)) == 8


def test_spoiled_pairs_teach_nothing() -> None:
    throttled = pair(cell(invalid=("GPU: throttled",)), cell())
    assert boots_of_one_engine([throttled], "chat", same_engine=True) == []


def test_one_boot_teaches_nothing(tmp_path: Path) -> None:
    assert store(tmp_path).learn("chat", boots_of_one_engine(PAIRS[:1], "chat", same_engine=False)) == 0
    assert list(tmp_path.iterdir()) == []
