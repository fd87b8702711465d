# SPDX-License-Identifier: Apache-2.0
"""The machine is described by what stays the same on it, and said to be unknown where it is."""

from pathlib import Path
from typing import Any

import pytest

from vllm_perf.history.hardware import (
    cpu_count,
    cpu_model,
    memory_gib,
    probe_hardware,
    read_gpus,
    visible_devices,
)


class NVMLError(Exception):
    """Stand in for the library's own."""


class FakeNvml:
    """Two GPUs and a MIG instance of the second; what is named in ``broken`` fails."""

    NVMLError = NVMLError
    names = ("NVIDIA H200", "NVIDIA L4", "NVIDIA H200 MIG 1g.18gb")
    uuids = ("GPU-aaaa", "GPU-bbbb", "MIG-cccc")

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.shut_down = 0

    def _check(self, name: str) -> None:
        if name in self.broken:
            raise NVMLError(f"{name} is not supported")

    def nvmlInit(self) -> None:
        self._check("init")

    def nvmlShutdown(self) -> None:
        self.shut_down += 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index > 1:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        if uuid not in self.uuids:
            raise NVMLError("Not Found")
        return self.uuids.index(uuid)

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return self.uuids[handle]

    def nvmlDeviceGetName(self, handle: int) -> bytes | str:
        return self.names[handle].encode() if handle else self.names[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return type("Memory", (), {"total": (handle + 1) * 2**30})

    def nvmlDeviceIsMigDeviceHandle(self, handle: int) -> bool:
        return handle == 2

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:
        self._check("mig")
        return handle, handle

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        self._check("power")
        return 699_900 if handle == 0 else 72_000

    def nvmlSystemGetDriverVersion(self) -> str:
        self._check("driver")
        return "590.44"


def test_all_gpus_are_described_in_order() -> None:
    nvml = FakeNvml()
    assert read_gpus(nvml, None) == {
        "gpu_names": ("NVIDIA H200", "NVIDIA L4"),
        "gpu_memory_mib": (1024, 2048),
        "gpu_mig": ("off", "on"),
        "gpu_power_cap_w": (700, 72),
        "driver": "590.44",
    }
    assert nvml.shut_down == 1


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        (("1",), ("NVIDIA L4",)),
        (("GPU-aaaa",), ("NVIDIA H200",)),
        (("GPU-b", "0"), ("NVIDIA L4", "NVIDIA H200")),
        (("MIG-cccc",), ("NVIDIA H200 MIG 1g.18gb",)),
        ((), ()),
    ],
)
def test_only_the_gpus_in_use_count(devices: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert read_gpus(FakeNvml(), devices)["gpu_names"] == names


def test_a_mig_instance_is_named_by_its_profile() -> None:
    assert read_gpus(FakeNvml(), ("MIG-cccc",))["gpu_mig"] == ("1g.18gb",)


def test_what_a_board_does_not_tell_is_unknown_not_zero() -> None:
    gpus = read_gpus(FakeNvml("mig", "power"), ("0",))
    assert gpus["gpu_mig"] == ("unsupported",)
    assert gpus["gpu_power_cap_w"] == (None,)


@pytest.mark.parametrize(
    ("broken", "devices", "note"),
    [
        ("init", None, "no NVML: init is not supported"),
        ("driver", None, "NVML failed: driver is not supported"),
        ("", ("7",), "NVML failed: Invalid Argument"),
    ],
)
def test_no_nvml_is_a_reason_not_an_error(broken: str, devices: tuple[str, ...] | None, note: str) -> None:
    assert read_gpus(FakeNvml(broken), devices) == {"nvml_note": note}


@pytest.mark.parametrize(
    ("value", "devices"),
    [("", ()), ("0,2", ("0", "2")), ("-1", ()), ("1,-1,0", ("1",)), ("GPU-a, GPU-b", ("GPU-a", "GPU-b"))],
)
def test_visible_devices_are_read_as_cuda_reads_them(value: str, devices: tuple[str, ...]) -> None:
    assert visible_devices({"CUDA_VISIBLE_DEVICES": value}) == devices


def test_no_limit_on_devices_is_all_of_them() -> None:
    assert visible_devices({}) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model name\t: Intel(R) Xeon(R) CPU @ 2.80GHz\ncpu MHz\t\t: 2793.438\n", "Intel(R) Xeon(R) CPU"),
        ("model name\t: AMD EPYC 9B14\n", "AMD EPYC 9B14"),
    ],
)
def test_the_cpu_is_named_without_its_clock(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_model(tmp_path / "cpuinfo") == name


def test_an_arm_cpu_is_named_by_its_part(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n")
    assert str(cpu_model(tmp_path / "cpuinfo")).endswith("implementer 0x41 part 0xd4f")


def test_a_containers_quota_cuts_the_cores(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert cpu_count(tmp_path / "cpu.max") == 1


@pytest.mark.parametrize("text", ["max 100000\n", "nonsense"])
def test_without_a_quota_the_affinity_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cpu_count(tmp_path / "cpu.max") == cpu_count(tmp_path / "none") >= 1


def test_this_machine_is_the_same_twice() -> None:
    assert probe_hardware() == probe_hardware()
    assert memory_gib() > 0
