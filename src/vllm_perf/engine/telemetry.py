# SPDX-License-Identifier: Apache-2.0
"""Watch the GPUs over exactly the time that was measured, and say whether the measurement can stand."""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any

from vllm_perf.engine.gpu import GpuSet
from vllm_perf.engine.nvml import MPS_SERVER, Gpu, GpuProcess, GpuReading
from vllm_perf.engine.telemetry_summary import GpuWindow, Spread, TelemetrySummary
from vllm_perf.engine.throttle import POWER_CAP, decode

INTERVAL_S = 0.1
# Listing processes costs the driver more than reading clocks; nobody starts and stops within a second unseen.
PROCESSES_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One sample of one GPU; ``processes`` are as last listed, which is not done at every sample."""

    at_ns: int
    uuid: str
    reading: GpuReading
    processes: tuple[GpuProcess, ...]


class Telemetry:
    """Sample GPUs in a thread while the block runs; ``summary`` may then be cut to the measured window.

    Without NVML nothing is sampled and the summary carries the reason. ``own_pids`` is asked whenever a
    process is listed that was not known before: an engine's workers may appear late.
    """

    def __init__(
        self, gpus: GpuSet, own_pids: Callable[[], Collection[int]] = tuple, interval_s: float = INTERVAL_S
    ) -> None:
        """Prepare; nothing is read before the block is entered."""
        self._gpus = gpus
        self._own_pids = own_pids
        self._interval_s = interval_s
        self._looks: list[Look] = []
        self._own: set[int] = set()
        self._listed: dict[str, tuple[GpuProcess, ...]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: str | None = None
        self._started_ns = 0
        self._ended_ns = 0

    def __enter__(self) -> "Telemetry":
        """Take the first sample before the block runs, then go on in a thread."""
        self._started_ns = time.perf_counter_ns()
        if self._gpus.gpus:
            self._look(with_processes=True)
            self._thread = threading.Thread(target=self._sample, name="gpu-telemetry", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the thread and take the last sample."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._look(with_processes=True)
        self._ended_ns = time.perf_counter_ns()

    def summary(self, start_ns: int | None = None, end_ns: int | None = None) -> TelemetrySummary:
        """Sum up the samples of ``start_ns``..``end_ns`` (``perf_counter_ns``; left out: the whole block)."""
        start = self._started_ns if start_ns is None else start_ns
        end = (self._ended_ns or time.perf_counter_ns()) if end_ns is None else end_ns
        looks = [look for look in list(self._looks) if start <= look.at_ns <= end]
        windows = [
            _window(gpu, [look for look in looks if look.uuid == gpu.uuid], self._own)
            for gpu in self._gpus.gpus
        ]
        reason = self._error or self._gpus.reason
        return TelemetrySummary(
            start_ns=start, end_ns=end, gpus=tuple(windows), reason=reason, warnings=self._gpus.warnings
        )

    def _sample(self) -> None:
        turn = 0
        while not self._stop.wait(self._interval_s):
            turn += 1
            self._look(with_processes=turn % PROCESSES_EVERY == 0)

    def _look(self, *, with_processes: bool) -> None:
        nvml = self._gpus.nvml
        if nvml is None:
            return
        try:
            for gpu in self._gpus.gpus:
                reading = nvml.read(gpu)
                at_ns = time.perf_counter_ns()
                if with_processes:
                    self._list(gpu, nvml.processes(gpu))
                listed = self._listed.get(gpu.uuid, ())
                self._looks.append(Look(at_ns=at_ns, uuid=gpu.uuid, reading=reading, processes=listed))
        except Exception as error:  # noqa: BLE001  watching must never break what is watched
            self._error = f"GPU telemetry stopped: {type(error).__name__}: {error}"
            self._stop.set()

    def _list(self, gpu: Gpu, processes: tuple[GpuProcess, ...]) -> None:
        self._listed[gpu.uuid] = processes
        # Looking through /proc for our own takes milliseconds of the load's own process: only for a new face.
        if any(process.pid not in self._own for process in processes):
            self._own.update(self._own_pids())


def _window(gpu: Gpu, looks: list[Look], own: set[int]) -> GpuWindow:
    seen = [decode(look.reading.throttle_bits) for look in looks if look.reading.throttle_bits is not None]
    words = sorted({word for reasons in seen for word in reasons})
    return GpuWindow(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        samples=len(looks),
        sm_mhz=_spread(looks, lambda reading: reading.sm_mhz),
        memory_mhz=_spread(looks, lambda reading: reading.memory_mhz),
        power_w=_spread(looks, lambda reading: reading.power_w),
        temperature_c=_spread(looks, lambda reading: reading.temperature_c),
        memory_used_mib=_spread(looks, lambda reading: reading.memory_used_mib),
        utilization_percent=_spread(looks, lambda reading: reading.utilization_percent),
        throttle_samples=len(seen),
        throttle={word: sum(word in reasons for reasons in seen) for word in words},
        capped_sm_mhz=_capped_clock(looks),
        others=_others(looks, own),
        pids_readable=_pids_readable(looks, own),
    )


def _spread(looks: list[Look], pick: Callable[[GpuReading], Any]) -> Spread | None:
    values = [float(value) for look in looks if (value := pick(look.reading)) is not None]
    if not values:
        return None
    return Spread(low=min(values), median=median(values), high=max(values))


def _capped_clock(looks: list[Look]) -> float | None:
    clocks = [
        look.reading.sm_mhz
        for look in looks
        if look.reading.sm_mhz is not None
        and look.reading.throttle_bits is not None
        and POWER_CAP in decode(look.reading.throttle_bits)
    ]
    return float(median(clocks)) if clocks else None


def _others(looks: list[Look], own: set[int]) -> tuple[GpuProcess, ...]:
    largest: dict[int, GpuProcess] = {}
    for process in (item for look in looks for item in look.processes):
        if process.pid in own or process.name.startswith(MPS_SERVER):
            continue
        before = largest.get(process.pid)
        if before is None or (process.memory_mib or 0) > (before.memory_mib or 0):
            largest[process.pid] = process
    return tuple(sorted(largest.values(), key=lambda process: process.pid))


def _pids_readable(looks: list[Look], own: set[int]) -> bool:
    listed = {process.pid: process.visible for look in looks for process in look.processes}
    # In a container of its own PID namespace NVML shows the host's pids: then our own engine is in the list
    # under a number that means nothing here.
    return not own or bool(own & listed.keys()) or all(listed.values())
