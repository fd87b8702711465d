# SPDX-License-Identifier: Apache-2.0
"""What kind of machine this is: with an NVIDIA GPU or without."""

from dataclasses import dataclass
from typing import Literal

from vllm_perf.engine.gpu import GpuSet, visible_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """``kind`` chooses ladder and budgets; ``reason`` says why it is not "cuda"."""

    kind: Literal["cpu", "cuda"]
    gpus: GpuSet
    reason: str = ""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Return the names of the GPUs in use, in order."""
        return tuple(gpu.name for gpu in self.gpus.gpus)

    @property
    def devices(self) -> tuple[str, ...]:
        """Return what is locked while an engine runs: the GPUs' UUIDs, or "cpu"."""
        return tuple(gpu.uuid for gpu in self.gpus.gpus) or ("cpu",)


def detect_machine() -> Machine:
    """Ask NVML for the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves visible; none found means "cpu"."""
    gpus = visible_gpus()
    kind: Literal["cpu", "cuda"] = "cuda" if gpus.gpus else "cpu"
    return Machine(kind=kind, gpus=gpus, reason=gpus.reason or "")
