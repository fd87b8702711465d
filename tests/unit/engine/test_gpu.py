# SPDX-License-Identifier: Apache-2.0
"""Which GPUs are visible, who is on them, and when their memory is back."""

from collections.abc import Iterator

import pytest

from vllm_perf.engine.fake_nvml import FakeNvml, fake_gpu
from vllm_perf.engine.gpu import GpuBusy, GpuSet, Waiting, visible_gpus, wait_memory_back
from vllm_perf.engine.nvml import GpuProcess, GpuReading, NoNvml, process_name
from vllm_perf.spec.category import Category

CARD = fake_gpu(0)
FOUR = FakeNvml(cards=tuple(fake_gpu(index) for index in range(4)))


def indices(setting: str | None, nvml: FakeNvml = FOUR) -> list[int]:
    environment = {} if setting is None else {"CUDA_VISIBLE_DEVICES": setting}
    return [gpu.index for gpu in visible_gpus(nvml, environment).gpus]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("GPU-30000000-aaaa", [3]),
        ("GPU-2", [2]),
        ("1,9,2", [1]),
        ("-1", []),
        ("", []),
        ("0,-1,2", [0]),
        ("GPU-", []),
        ("NoDevFiles", []),
    ],
)
def test_visible_gpus_are_those_that_cuda_would_show(setting: str | None, expected: list[int]) -> None:
    assert indices(setting) == expected


def test_a_mig_slice_is_found_by_its_uuid() -> None:
    piece = fake_gpu(7, "Test GPU MIG 1g.10gb", parent_uuid=CARD.uuid)
    nvml = FakeNvml(cards=(CARD,), mig={CARD.uuid: (piece,)})
    assert visible_gpus(nvml, {"CUDA_VISIBLE_DEVICES": piece.uuid}).gpus == (piece,)


def test_with_mig_on_and_no_selection_only_the_first_slice_is_visible() -> None:
    pieces = tuple(fake_gpu(index, parent_uuid=CARD.uuid) for index in (5, 6))
    assert indices(None, FakeNvml(cards=(CARD,), mig={CARD.uuid: pieces})) == [5]


def test_hidden_gpus_are_explained_with_the_setting() -> None:
    found = visible_gpus(FOUR, {"CUDA_VISIBLE_DEVICES": "7"})
    assert found.reason == "CUDA_VISIBLE_DEVICES='7' hides every GPU"
    assert "'7' names no GPU here" in found.warnings[0]


def test_hiding_gpus_on_purpose_is_no_warning() -> None:
    assert visible_gpus(FOUR, {"CUDA_VISIBLE_DEVICES": "-1"}).warnings == ()


def test_mixed_gpus_warn_that_an_index_may_mean_another_card() -> None:
    mixed = FakeNvml(cards=(fake_gpu(0, "small"), fake_gpu(1, "large")))
    (warning,) = visible_gpus(mixed, {"CUDA_VISIBLE_DEVICES": "0"}).warnings
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in warning
    ordered = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible_gpus(mixed, ordered).warnings == ()


def test_without_nvml_everything_is_empty_and_the_reason_is_kept() -> None:
    found = visible_gpus(NoNvml(reason="no NVML: driver not loaded"), {})
    assert (found.gpus, found.reason) == ((), "no NVML: driver not loaded")
    assert (found.memory_used_mib(), found.foreign(())) == ({}, {})
    wait_memory_back(found, {}, timeout_s=0)


def test_foreign_processes_leave_out_our_own_and_the_desktop() -> None:
    ours, theirs = GpuProcess(pid=1, name="vllm", memory_mib=9), GpuProcess(pid=2, name="x", memory_mib=8)
    desktop = GpuProcess(pid=3, name="Xorg", memory_mib=4, kind="graphics")
    gpus = holding((GpuReading(),), (ours, theirs, desktop))
    assert gpus.foreign({1}) == {CARD.uuid: (theirs,)}


def holding(readings: tuple[GpuReading, ...], processes: tuple[GpuProcess, ...] = ()) -> GpuSet:
    nvml = FakeNvml(cards=(CARD,), readings=readings, on_gpu={CARD.uuid: processes})
    return GpuSet(gpus=(CARD,), nvml=nvml)


def used(*mib: int | None) -> tuple[GpuReading, ...]:
    return tuple(GpuReading(memory_used_mib=value) for value in mib)


def ticking(pauses: list[float]) -> Waiting:
    seconds: Iterator[int] = iter(range(1_000))
    return Waiting(clock=lambda: float(next(seconds)), pause=pauses.append, poll_s=0.5)


def test_waiting_ends_when_memory_is_back_at_the_baseline() -> None:
    pauses: list[float] = []
    wait_memory_back(holding(used(70_000, 30_000, 1_000)), {CARD.uuid: 900}, 10, waiting=ticking(pauses))
    assert pauses == [0.5, 0.5]


def test_a_foreign_process_that_keeps_memory_is_named_with_pid_and_size() -> None:
    holder = GpuProcess(pid=26_825, name="python", memory_mib=57_375)
    with pytest.raises(GpuBusy, match=r"foreign process pid 26825 \(python, 57375 MiB\)") as caught:
        wait_memory_back(holding(used(57_900), (holder,)), {CARD.uuid: 500}, 3, waiting=ticking([]))
    assert caught.value.diagnosis.category is Category.GPU_FOREIGN_PROCESS
    assert caught.value.processes == (holder,)
    assert "GPU 0 (Test GPU) still holds 57400 MiB more than before" in str(caught.value)


def test_our_own_engine_that_lingers_is_called_ours() -> None:
    core = GpuProcess(pid=44, name="VLLM::EngineCore", memory_mib=104_277)
    with pytest.raises(GpuBusy, match=r"our own engine's pid 44 \(VLLM::EngineCore, 104277 MiB\)") as caught:
        wait_memory_back(holding(used(104_277), (core,)), {}, 1, {44}, ticking([]))
    assert caught.value.diagnosis.category is Category.GPU_BUSY_OR_UTIL_TOO_HIGH


def test_a_stranger_that_was_there_before_the_first_boot_is_named_too() -> None:
    holder = GpuProcess(pid=4_711, name="python", memory_mib=20_312)
    there_before = {CARD.uuid: 20_400}
    with pytest.raises(GpuBusy, match=r"is in use: foreign process pid 4711 \(python, 20312 MiB\)"):
        wait_memory_back(holding(used(20_400), (holder,)), there_before, 2, waiting=ticking([]))


def test_small_strangers_the_desktop_and_the_mps_server_keep_nobody_waiting() -> None:
    small = GpuProcess(pid=5, name="monitor", memory_mib=200)
    desktop = GpuProcess(pid=6, name="Xorg", memory_mib=900, kind="graphics")
    server = GpuProcess(pid=7, name="nvidia-cuda-mps-server", memory_mib=None)
    wait_memory_back(holding(used(1_100), (small, desktop, server)), {CARD.uuid: 1_100}, 0)


def test_memory_that_no_listed_process_holds_is_said_to_be_so() -> None:
    with pytest.raises(GpuBusy, match="NVML names no process"):
        wait_memory_back(holding(used(20_000)), {}, 1, waiting=ticking([]))


def test_a_card_that_does_not_tell_its_memory_is_not_waited_for() -> None:
    wait_memory_back(holding(used(None)), {}, 1, waiting=ticking([]))


def test_a_pid_that_does_not_exist_has_no_name() -> None:
    assert process_name(2**22 + 1) is None
