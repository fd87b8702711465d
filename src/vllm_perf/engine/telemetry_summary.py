# SPDX-License-Identifier: Apache-2.0
"""What the GPUs did while something was measured: plain data, and what in it forbids a verdict."""

from dataclasses import asdict, dataclass, field
from typing import Any

from vllm_perf.engine.nvml import GpuProcess
from vllm_perf.engine.throttle import POWER_CAP, SPOILING

# The power cap alone spoils nothing: an H200 prefilling 4,000-token prompts sits at its 700 W cap and about
# 1,500 MHz in every run (seen in all of a ladder's). What matters is that both sides of a comparison ran at
# the same clock.
CLOCK_DIFFERENCE_ALLOWED = 0.03
GRAPHICS_ALLOWED_MIB = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Lowest, median and highest of a window's samples, in the unit of the field's name."""

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWindow:
    """One GPU over the window; a field is ``None`` where the card does not tell.

    ``throttle`` counts, for each reason in words, the samples that had it, out of ``throttle_samples``.
    ``capped_sm_mhz`` is the median SM clock of the samples under the power cap. ``others`` are processes
    that are not ours, each with the most memory it was seen with; without ``pids_readable`` ours may be
    among them, because NVML counts in another PID namespace.
    """

    index: int
    uuid: str
    name: str
    samples: int
    sm_mhz: Spread | None = None
    memory_mhz: Spread | None = None
    power_w: Spread | None = None
    temperature_c: Spread | None = None
    memory_used_mib: Spread | None = None
    utilization_percent: Spread | None = None
    throttle_samples: int = 0
    throttle: dict[str, int] = field(default_factory=dict)
    capped_sm_mhz: float | None = None
    others: tuple[GpuProcess, ...] = ()
    pids_readable: bool = True

    def problems(self) -> list[str]:
        """Return, as sentences, what makes a measurement over this window invalid."""
        said = [
            f"GPU {self.index} throttled: {word} in {count} of {self.throttle_samples} samples{self._heat()}"
            for word, count in self.throttle.items()
            if word in SPOILING
        ]
        return said + [f"GPU {self.index} shared with {process}" for process in self._sharers()]

    def notes(self) -> list[str]:
        """Return what is worth knowing and spoils nothing."""
        said = []
        if POWER_CAP in self.throttle:
            count = self.throttle[POWER_CAP]
            known = self.capped_sm_mhz is not None
            clock = f", median SM clock there {self.capped_sm_mhz:.0f} MHz" if known else ""
            said.append(
                f"GPU {self.index}: at its power cap in {count} of {self.throttle_samples} samples{clock}"
            )
        sharers = self._sharers()
        said += [
            f"GPU {self.index}: {process} is on it too" for process in self.others if process not in sharers
        ]
        if not self.pids_readable:
            said.append(
                f"GPU {self.index}: NVML's pids are not this container's, so sharing cannot be ruled out"
            )
        if self.samples and not self.throttle_samples:
            said.append(f"GPU {self.index}: the driver does not say whether the card throttled")
        return said

    def _sharers(self) -> tuple[GpuProcess, ...]:
        return tuple(
            process
            for process in self.others
            if (self.pids_readable or process.visible)
            and (process.kind == "compute" or (process.memory_mib or 0) > GRAPHICS_ALLOWED_MIB)
        )

    def _heat(self) -> str:
        return "" if self.temperature_c is None else f", up to {self.temperature_c.high:.0f} °C"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySummary:
    """All visible GPUs over one window (``perf_counter_ns``); ``reason`` says why there is nothing."""

    start_ns: int
    end_ns: int
    gpus: tuple[GpuWindow, ...] = ()
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    def problems(self) -> list[str]:
        """Return what makes the measurement *no verdict*: throttled, shared, or a GPU nobody looked at."""
        said = [text for gpu in self.gpus for text in gpu.problems()]
        if self.gpus and self.reason is not None:
            said.append(self.reason)
        said += [f"GPU {gpu.index}: no sample in the window" for gpu in self.gpus if not gpu.samples]
        return said

    def notes(self) -> list[str]:
        """Return what is worth knowing and spoils nothing; says so where NVML is missing."""
        said = [text for gpu in self.gpus for text in gpu.notes()] + list(self.warnings)
        if not self.gpus:
            said.append(f"GPU telemetry not taken: {self.reason or 'no GPU is visible'}")
        return said

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a record, problems and notes included."""
        return asdict(self) | {"problems": self.problems(), "notes": self.notes()}


def clocks_differ(
    base: TelemetrySummary, head: TelemetrySummary, allowed: float = CLOCK_DIFFERENCE_ALLOWED
) -> list[str]:
    """Return a sentence for each GPU whose median SM clocks lie further apart than ``allowed`` (a share)."""
    clocks = {gpu.uuid: gpu.sm_mhz.median for gpu in base.gpus if gpu.sm_mhz is not None}
    said = []
    for gpu in head.gpus:
        before = clocks.get(gpu.uuid)
        if before is None or gpu.sm_mhz is None:
            continue
        change = gpu.sm_mhz.median / before - 1
        if abs(change) > allowed:
            said.append(
                f"GPU {gpu.index}: median SM clock {before:.0f} MHz for base, {gpu.sm_mhz.median:.0f} MHz "
                f"for head ({change:+.1%}; up to {allowed:.0%} is allowed)"
            )
    return said
