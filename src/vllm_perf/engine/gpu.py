# SPDX-License-Identifier: Apache-2.0
"""Which GPUs an engine would see, who else is on them, and waiting until their memory is back."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.errors import LabError
from vllm_perf.engine.nvml import MPS_SERVER, Gpu, GpuProcess, NoNvml, Nvml, open_nvml
from vllm_perf.spec.category import Category

# A CUDA context that is going away leaves this much behind for a moment; a model never is this small.
SLACK_MIB = 512
POLL_S = 0.25


class GpuBusy(LabError):
    """Report a GPU whose memory did not come back; the message names who holds it, with pid and size."""

    def __init__(self, evidence: str, processes: tuple[GpuProcess, ...], own_pids: Collection[int]) -> None:
        """Call it a foreign process's doing unless every process named is ours."""
        ours = bool(processes) and all(process.pid in own_pids for process in processes)
        super().__init__(
            "the GPU's memory did not come back",
            Diagnosis(
                category=Category.GPU_BUSY_OR_UTIL_TOO_HIGH if ours else Category.GPU_FOREIGN_PROCESS,
                cause="an engine that was stopped still holds GPU memory"
                if ours
                else "another process holds GPU memory; the next engine would not fit, or share the card",
                evidence=evidence,
                remedy="end the process named, or pick another GPU with CUDA_VISIBLE_DEVICES",
                figures={process.name: process.memory_mib or 0 for process in processes},
            ),
        )
        self.processes = processes


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSet:
    """The GPUs that CUDA would show; empty with ``reason`` where there are none or NVML is not there."""

    gpus: tuple[Gpu, ...] = ()
    nvml: Nvml | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    def memory_used_mib(self) -> dict[str, int]:
        """Return what is in use now, per UUID; a GPU that does not say is left out."""
        if self.nvml is None:
            return {}
        readings = {gpu.uuid: self.nvml.read(gpu).memory_used_mib for gpu in self.gpus}
        return {uuid: used for uuid, used in readings.items() if used is not None}

    def foreign(self, own_pids: Collection[int]) -> dict[str, tuple[GpuProcess, ...]]:
        """Return the compute processes that are not ours, per UUID; GPUs without any are left out."""
        if self.nvml is None:
            return {}
        found = {gpu.uuid: _foreign(self.nvml.processes(gpu), own_pids) for gpu in self.gpus}
        return {uuid: processes for uuid, processes in found.items() if processes}


def visible_gpus(nvml: Nvml | NoNvml | None = None, environment: Mapping[str, str] | None = None) -> GpuSet:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, in its order.

    It names them by index, UUID, MIG UUID or the start of one. As in CUDA, an entry that names nothing hides
    itself and everything after it, and an empty value hides all.
    """
    library = open_nvml() if nvml is None else nvml
    if isinstance(library, NoNvml):
        return GpuSet(reason=library.reason)
    settings = os.environ if environment is None else environment
    whole = library.gpus()
    wanted = settings.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return GpuSet(gpus=_without_selection(library, whole), nvml=library)
    gpus, unknown = _select(library, whole, wanted)
    reason = None if gpus else f"CUDA_VISIBLE_DEVICES={wanted!r} hides every GPU"
    return GpuSet(gpus=gpus, nvml=library, reason=reason, warnings=_warnings(settings, whole, unknown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How to wait: the clock and the pause are parameters so that a test needs neither."""

    poll_s: float = POLL_S
    slack_mib: int = SLACK_MIB
    clock: Callable[[], float] = field(default=time.monotonic)
    pause: Callable[[float], None] = field(default=time.sleep)


def wait_memory_back(
    gpus: GpuSet,
    baseline_mib: Mapping[str, int],
    timeout_s: float,
    own_pids: Collection[int] = (),
    waiting: Waiting | None = None,
) -> None:
    """Return once every GPU is back at its baseline (``GpuSet.memory_used_mib`` before the first boot).

    A stranger's process that held memory before the first boot is not waited for as memory, but as a process:
    no verdict could come of a shared GPU. Without NVML this returns at once. ``own_pids`` are the stopped
    engine's: named as ours if they linger.

    Raises:
        GpuBusy: memory is still held after ``timeout_s``; the message names each holder.
    """
    how = waiting or Waiting()
    deadline = how.clock() + timeout_s
    while True:
        taken = _taken(gpus, baseline_mib, own_pids, how.slack_mib)
        if not taken:
            return
        if how.clock() >= deadline:
            processes = tuple(process for _, holders in taken for process in holders)
            evidence = f"{'; '.join(sentence for sentence, _ in taken)} (waited {timeout_s:g} s)"
            raise GpuBusy(evidence, processes, own_pids)
        how.pause(how.poll_s)


def _taken(
    gpus: GpuSet, baseline_mib: Mapping[str, int], own_pids: Collection[int], slack_mib: int
) -> list[tuple[str, tuple[GpuProcess, ...]]]:
    """Return, for each GPU that is not free, a sentence and the processes that hold it."""
    used = gpus.memory_used_mib()
    taken = []
    for gpu in gpus.gpus:
        processes = gpus.nvml.processes(gpu) if gpus.nvml is not None else ()
        over = used.get(gpu.uuid, 0) - baseline_mib.get(gpu.uuid, 0)
        strangers = tuple(item for item in _foreign(processes, own_pids) if _is_large(item, slack_mib))
        name = f"GPU {gpu.index} ({gpu.name})"
        if over > slack_mib:
            taken.append(
                (
                    f"{name} still holds {over} MiB more than before: {_holders(processes, own_pids)}",
                    processes,
                )
            )
        elif strangers:
            taken.append((f"{name} is in use: {_holders(strangers, own_pids)}", strangers))
    return taken


def _is_large(process: GpuProcess, slack_mib: int) -> bool:
    return process.memory_mib is None or process.memory_mib > slack_mib


def _holders(processes: tuple[GpuProcess, ...], own_pids: Collection[int]) -> str:
    if not processes:
        return "NVML names no process, so it is one of another container or user, or a driver leak"
    ours = [f"our own engine's {process}" for process in processes if process.pid in own_pids]
    foreign = [f"foreign process {process}" for process in processes if process.pid not in own_pids]
    return ", ".join(foreign + ours)


def _foreign(processes: tuple[GpuProcess, ...], own_pids: Collection[int]) -> tuple[GpuProcess, ...]:
    return tuple(
        item
        for item in processes
        if item.kind == "compute" and item.pid not in own_pids and not item.name.startswith(MPS_SERVER)
    )


def _without_selection(nvml: Nvml, whole: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    # With MIG on, CUDA shows one slice only: the first of the first card that has any.
    for gpu in whole:
        slices = nvml.slices(gpu.uuid)
        if slices:
            return slices[:1]
    return whole


def _select(nvml: Nvml, whole: tuple[Gpu, ...], wanted: str) -> tuple[tuple[Gpu, ...], str | None]:
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in wanted.split(",")):
        found = _find(nvml, whole, entry)
        if found is None:
            return tuple(chosen), entry
        chosen.append(found)
    return tuple(chosen), None


def _find(nvml: Nvml, whole: tuple[Gpu, ...], entry: str) -> Gpu | None:
    if entry.isdigit():
        return next((gpu for gpu in whole if gpu.index == int(entry)), None)
    if entry.startswith("MIG-"):
        slices = [piece for gpu in whole for piece in nvml.slices(gpu.uuid)]
        return _by_start(slices, entry)
    return _by_start(whole, entry) if entry.startswith("GPU-") else None


def _by_start(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    matching = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def _warnings(settings: Mapping[str, str], whole: tuple[Gpu, ...], unknown: str | None) -> tuple[str, ...]:
    said: list[str] = []
    if unknown not in (None, "", "-1"):
        said.append(f"CUDA_VISIBLE_DEVICES: '{unknown}' names no GPU here; it and what follows it are hidden")
    mixed = len({gpu.name for gpu in whole}) > 1
    if mixed and settings.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        said.append(
            "GPUs of several kinds: CUDA counts the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, "
            "so an index may mean another GPU than NVML's"
        )
    return tuple(said)
