# SPDX-License-Identifier: Apache-2.0
"""Read what machine this is: GPUs through NVML, CPU and memory from the kernel."""

import itertools
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vllm_perf.history.environment import Hardware

GIB = 1024**3


def probe_hardware(devices: Sequence[str] | None = None) -> Hardware:
    """Describe this machine; ``devices`` are the GPUs in use (indices or UUIDs), by default those visible.

    A machine without NVML is described all the same, with the reason in ``nvml_note``.
    """
    chosen = visible_devices() if devices is None else tuple(devices)
    gpus = _probe_gpus(chosen)
    return Hardware(**gpus, cpu_model=cpu_model(), cpu_count=cpu_count(), memory_gib=memory_gib())


def visible_devices(environ: dict[str, str] | None = None) -> tuple[str, ...] | None:
    """Return what ``CUDA_VISIBLE_DEVICES`` lists; ``None`` when it is not set (all of them)."""
    value = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    items = [item.strip() for item in value.split(",")]
    return tuple(itertools.takewhile(lambda item: item not in ("", "-1"), items))  # CUDA stops there too


def _probe_gpus(devices: Sequence[str] | None) -> dict[str, Any]:
    try:
        import pynvml  # heavy only where there is a driver; its import alone never fails for want of one
    except ImportError as error:
        return {"nvml_note": f"no NVML: {error}"}
    return read_gpus(pynvml, devices)


def read_gpus(nvml: Any, devices: Sequence[str] | None) -> dict[str, Any]:
    """Return the GPU fields of :class:`Hardware` as NVML (or a stand-in with its functions) tells them."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"nvml_note": f"no NVML: {error}"}
    try:
        handles = _handles(nvml, devices)
        return {
            "gpu_names": tuple(_text(nvml.nvmlDeviceGetName(handle)) for handle in handles),
            "gpu_memory_mib": tuple(
                nvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20 for handle in handles
            ),
            "gpu_mig": tuple(_mig(nvml, handle) for handle in handles),
            "gpu_power_cap_w": tuple(_power_cap_w(nvml, handle) for handle in handles),
            "driver": _text(nvml.nvmlSystemGetDriverVersion()),
        }
    except nvml.NVMLError as error:
        return {"nvml_note": f"NVML failed: {error}"}
    finally:
        nvml.nvmlShutdown()


def _handles(nvml: Any, devices: Sequence[str] | None) -> list[Any]:
    if devices is None:
        return _all_handles(nvml)
    return [_handle(nvml, device) for device in devices]


def _all_handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def _handle(nvml: Any, device: str) -> Any:
    """Return the handle of an index, a UUID (also of a MIG instance) or the beginning of a UUID."""
    if device.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(device))
    for handle in _all_handles(nvml):
        if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(device):
            return handle
    return nvml.nvmlDeviceGetHandleByUUID(device)


def _mig(nvml: Any, handle: Any) -> str:
    """Return ``off``, ``unsupported``, ``on`` (the whole GPU, split) or the name of the instance itself."""
    try:
        if nvml.nvmlDeviceIsMigDeviceHandle(handle):
            return _text(nvml.nvmlDeviceGetName(handle)).rpartition("MIG ")[2]
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        return "unsupported"
    return "on" if current else "off"


def _power_cap_w(nvml: Any, handle: Any) -> int | None:
    """Return the enforced limit in watts; a MIG instance and some boards have none of their own."""
    try:
        limit_mw: int = nvml.nvmlDeviceGetEnforcedPowerLimit(handle)
        return round(limit_mw / 1000)
    except nvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the CPU's name without its clock, or ``None`` where the kernel does not tell."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    split = (line.partition(":") for line in lines)
    pairs = {name.strip(): value.strip() for name, colon, value in split if colon}
    name = pairs.get("model name") or pairs.get("Hardware")
    if name:
        return name.partition(" @ ")[0]
    if "CPU part" in pairs:  # Arm kernels name the implementer and the part only
        return f"{platform.machine()} implementer {pairs.get('CPU implementer')} part {pairs['CPU part']}"
    return platform.processor() or None


def cpu_count(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use: its affinity, cut by the container's quota."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, _, period = cpu_max.read_text(encoding="utf-8").strip().partition(" ")
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return count


def memory_gib() -> float:
    """Return the machine's memory in GiB, to one decimal: kernels reserve slightly different amounts."""
    total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return round(total_bytes / GIB, 1)
