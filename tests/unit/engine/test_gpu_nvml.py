# SPDX-License-Identifier: Apache-2.0
"""The face of NVML, on a stand-in for the driver's own module."""

import os
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from vllm_perf.engine.nvml import GpuReading, NoNvml, SystemNvml, open_nvml


def refuse(*_: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def answer(value: Any) -> Any:
    return lambda *_: value


CARD: dict[str, Any] = {
    "nvmlInit": answer(None),
    "nvmlDeviceGetCount": answer(1),
    "nvmlSystemGetDriverVersion": answer(b"580.1"),
    "nvmlDeviceGetHandleByIndex": answer("card"),
    "nvmlDeviceGetHandleByUUID": answer("card"),
    "nvmlDeviceGetUUID": lambda handle: "GPU-1" if handle == "card" else "MIG-1",
    "nvmlDeviceGetName": answer("Test GPU"),
    "nvmlDeviceGetIndex": answer(0),
    "nvmlDeviceGetMemoryInfo": answer(SimpleNamespace(total=2048 * 1024 * 1024, used=512 * 1024 * 1024)),
    "nvmlDeviceGetEnforcedPowerLimit": answer(700_000),
    "nvmlDeviceGetMigMode": refuse,
    "nvmlDeviceGetPowerUsage": answer(650_500),
    "nvmlDeviceGetClockInfo": lambda _, kind: 1980 if kind == pynvml.NVML_CLOCK_SM else 3201,
    "nvmlDeviceGetTemperature": answer(61),
    "nvmlDeviceGetUtilizationRates": answer(SimpleNamespace(gpu=97)),
    "nvmlDeviceGetCurrentClocksThrottleReasons": answer(0x4),
    "nvmlDeviceGetComputeRunningProcesses": answer([]),
    "nvmlDeviceGetGraphicsRunningProcesses": refuse,
}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, function in CARD.items():
        monkeypatch.setattr(pynvml, name, function)
    return monkeypatch


def opened() -> SystemNvml:
    nvml = open_nvml()
    assert isinstance(nvml, SystemNvml)
    return nvml


def test_a_missing_driver_is_a_reason_and_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    found = open_nvml()
    assert isinstance(found, NoNvml)
    assert found.reason.startswith("no NVML: ")


def test_a_driver_without_gpus_is_a_reason(driver: pytest.MonkeyPatch) -> None:
    driver.setattr(pynvml, "nvmlDeviceGetCount", answer(0))
    assert open_nvml() == NoNvml(reason="no NVML: the driver is loaded but shows no GPU")


@pytest.mark.usefixtures("driver")
def test_the_facts_of_a_card_are_in_mib_and_watts() -> None:
    (gpu,) = opened().gpus()
    assert (gpu.uuid, gpu.name, gpu.driver) == ("GPU-1", "Test GPU", "580.1")
    assert (gpu.memory_mib, gpu.power_cap_w) == (2048, 700.0)


@pytest.mark.usefixtures("driver")
def test_a_reading_holds_what_the_card_tells() -> None:
    nvml = opened()
    assert nvml.read(nvml.gpus()[0]) == GpuReading(
        sm_mhz=1980,
        memory_mhz=3201,
        power_w=650.5,
        temperature_c=61,
        memory_used_mib=512,
        utilization_percent=97,
        throttle_bits=4,
    )


def test_what_a_card_does_not_tell_is_none(driver: pytest.MonkeyPatch) -> None:
    nvml = opened()
    (gpu,) = nvml.gpus()
    for name in ("PowerUsage", "ClockInfo", "Temperature", "MemoryInfo", "UtilizationRates"):
        driver.setattr(pynvml, f"nvmlDeviceGet{name}", refuse)
    driver.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", refuse)
    assert nvml.read(gpu) == GpuReading()


def test_processes_come_with_kind_size_and_whether_they_can_be_seen(driver: pytest.MonkeyPatch) -> None:
    here = SimpleNamespace(pid=os.getpid(), usedGpuMemory=3 * 1024 * 1024)
    elsewhere = SimpleNamespace(pid=2**22 + 1, usedGpuMemory=None)
    driver.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", answer([here]))
    driver.setattr(pynvml, "nvmlDeviceGetGraphicsRunningProcesses", answer([here, elsewhere]))
    nvml = opened()
    found = {process.pid: process for process in nvml.processes(nvml.gpus()[0])}
    assert (found[os.getpid()].kind, found[os.getpid()].memory_mib) == ("compute", 3)
    assert (found[2**22 + 1].memory_mib, found[2**22 + 1].visible) == (None, False)


def test_mig_slices_know_their_card(driver: pytest.MonkeyPatch) -> None:
    driver.setattr(pynvml, "nvmlDeviceGetMigMode", answer([1, 1]))
    driver.setattr(pynvml, "nvmlDeviceGetMaxMigDeviceCount", answer(2))
    driver.setattr(
        pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", lambda _, place: refuse() if place else "slice"
    )
    (piece,) = opened().slices("GPU-1")
    assert (piece.uuid, piece.parent_uuid) == ("MIG-1", "GPU-1")


@pytest.mark.usefixtures("driver")
def test_a_card_without_mig_has_no_slices() -> None:
    assert opened().slices("GPU-1") == ()
