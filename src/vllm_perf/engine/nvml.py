# SPDX-License-Identifier: Apache-2.0
"""A thin typed face of NVML: what this project reads of a GPU, and the reason where NVML is not there.

Every reading that a card, a driver or a MIG slice does not offer is ``None``, never 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import psutil
import pynvml

MIB = 1024 * 1024
# Its own process is on every GPU that is shared through MPS; what uses it is listed beside it.
MPS_SERVER = "nvidia-cuda-mps"
ProcessKind = Literal["compute", "graphics"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, or one MIG slice of a GPU (``parent_uuid`` is then the card's own).

    ``index`` is NVML's (PCI bus order); ``power_cap_w`` the limit in force, not the card's maximum.
    """

    index: int
    uuid: str
    name: str
    memory_mib: int
    driver: str
    power_cap_w: float | None = None
    parent_uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """One process on a GPU; ``memory_mib`` is ``None`` where the driver does not say.

    ``visible`` is false for a pid that does not exist here: a process of another container.
    """

    pid: int
    name: str
    memory_mib: int | None
    kind: ProcessKind = "compute"
    visible: bool = True

    def __str__(self) -> str:
        """Return name, pid and size, as a message shows them."""
        size = "size unknown" if self.memory_mib is None else f"{self.memory_mib} MiB"
        return f"pid {self.pid} ({self.name}, {size})"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One look at a GPU; ``throttle_bits`` is NVML's mask of clock event reasons."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    memory_used_mib: int | None = None
    utilization_percent: int | None = None
    throttle_bits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNvml:
    """Say why there is nothing to read; ``reason`` begins with ``no NVML:``."""

    reason: str


class Nvml(Protocol):
    """What is asked of NVML; a GPU is named by its UUID."""

    def gpus(self) -> tuple[Gpu, ...]:
        """Return every whole GPU, in PCI bus order."""

    def slices(self, uuid: str) -> tuple[Gpu, ...]:
        """Return the MIG slices of one GPU (none where MIG is off)."""

    def read(self, gpu: Gpu) -> GpuReading:
        """Return what the GPU says at this moment."""

    def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Return the processes that hold memory on the GPU."""


def open_nvml() -> "Nvml | NoNvml":
    """Load the driver's library, or say why it cannot be used (no driver, no device, no permission)."""
    try:
        pynvml.nvmlInit()
        if pynvml.nvmlDeviceGetCount() == 0:
            return NoNvml(reason="no NVML: the driver is loaded but shows no GPU")
        return SystemNvml()
    except pynvml.NVMLError as error:
        return NoNvml(reason=f"no NVML: {error}")


class SystemNvml:
    """Read the GPUs of this machine through nvidia-ml-py."""

    def __init__(self) -> None:
        """Remember the driver's version; NVML must be initialized already."""
        self._driver = _text(pynvml.nvmlSystemGetDriverVersion())
        self._handles: dict[str, Any] = {}

    def gpus(self) -> tuple[Gpu, ...]:
        """Return every whole GPU, in PCI bus order."""
        count = pynvml.nvmlDeviceGetCount()
        return tuple(self._facts(pynvml.nvmlDeviceGetHandleByIndex(index), index) for index in range(count))

    def slices(self, uuid: str) -> tuple[Gpu, ...]:
        """Return the MIG slices of one GPU (none where MIG is off)."""
        card = self._handle(uuid)
        if not _maybe(lambda: pynvml.nvmlDeviceGetMigMode(card)[0]):
            return ()
        index = pynvml.nvmlDeviceGetIndex(card)
        places = range(_maybe(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(card)) or 0)
        handles = [_slice_handle(card, place) for place in places]
        return tuple(self._facts(handle, index, parent=uuid) for handle in handles if handle is not None)

    def read(self, gpu: Gpu) -> GpuReading:
        """Return what the GPU says at this moment; a slice's clocks and power are its card's."""
        own, card = self._handle(gpu.uuid), self._handle(gpu.parent_uuid or gpu.uuid)
        power_mw = _maybe(lambda: pynvml.nvmlDeviceGetPowerUsage(card))
        memory = _maybe(lambda: pynvml.nvmlDeviceGetMemoryInfo(own))
        return GpuReading(
            sm_mhz=_maybe(lambda: int(pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM))),
            memory_mhz=_maybe(lambda: int(pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_MEM))),
            power_w=None if power_mw is None else power_mw / 1000,
            temperature_c=_maybe(
                lambda: int(pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU))
            ),
            memory_used_mib=None if memory is None else int(memory.used) // MIB,
            utilization_percent=_maybe(lambda: int(pynvml.nvmlDeviceGetUtilizationRates(own).gpu)),
            throttle_bits=_maybe(lambda: int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(card))),
        )

    def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Return the processes that hold memory on the GPU; one that has just gone is left out."""
        handle = self._handle(gpu.uuid)
        compute = _maybe(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
        graphics = _maybe(lambda: pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)) or []
        found = {row.pid: _process(row, "graphics") for row in graphics}
        return tuple((found | {row.pid: _process(row, "compute") for row in compute}).values())

    def _handle(self, uuid: str) -> Any:
        if uuid not in self._handles:
            self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return self._handles[uuid]

    def _facts(self, handle: Any, index: int, parent: str | None = None) -> Gpu:
        cap_mw = _maybe(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
        self._handles[uuid] = handle
        return Gpu(
            index=index,
            uuid=uuid,
            name=_text(pynvml.nvmlDeviceGetName(handle)),
            memory_mib=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) // MIB,
            driver=self._driver,
            power_cap_w=None if cap_mw is None else cap_mw / 1000,
            parent_uuid=parent,
        )


def process_name(pid: int) -> str | None:
    """Return a process's own name (as vLLM's ``VLLM::EngineCore``), ``None`` if it cannot be seen."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None


def _process(row: Any, kind: ProcessKind) -> GpuProcess:
    used = row.usedGpuMemory
    size = None if used is None else int(used) // MIB
    name = process_name(int(row.pid))
    return GpuProcess(
        pid=int(row.pid),
        name=name or "not visible from here",
        memory_mib=size,
        kind=kind,
        visible=name is not None,
    )


def _slice_handle(card: Any, place: int) -> Any:
    return _maybe(lambda: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, place))


def _maybe(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
