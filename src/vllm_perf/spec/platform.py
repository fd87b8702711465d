# SPDX-License-Identifier: Apache-2.0
"""What kind of machine this is: with an NVIDIA GPU or without."""

import os
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """``kind`` chooses ladder and budgets; ``reason`` says why it is not "cuda"."""

    kind: Literal["cpu", "cuda"]
    gpus: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    reason: str = ""

    @property
    def devices(self) -> tuple[str, ...]:
        """Return what is locked while an engine runs: the GPUs' UUIDs, or "cpu"."""
        return self.uuids or ("cpu",)


def detect_platform() -> Platform:
    """Ask NVML for the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves visible; none found means "cpu"."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return Platform(kind="cpu", reason="CUDA_VISIBLE_DEVICES hides every GPU")
    try:
        import pynvml  # only here: the CPU path must not need a driver
    except ImportError as error:
        return Platform(kind="cpu", reason=f"nvidia-ml-py cannot be imported: {error}")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return Platform(kind="cpu", reason=f"no NVML: {error}")
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        names = tuple(str(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
        uuids = tuple(str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()
    shown = _visible(len(uuids), uuids)
    if not shown:
        return Platform(kind="cpu", reason="NVML shows no GPU")
    return Platform(
        kind="cuda", gpus=tuple(names[i] for i in shown), uuids=tuple(uuids[i] for i in shown)
    )


def _visible(count: int, uuids: tuple[str, ...]) -> tuple[int, ...]:
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return tuple(range(count))
    wanted = [word.strip() for word in asked.split(",") if word.strip()]
    return tuple(
        index for index in range(count) if str(index) in wanted or any(uuids[index].startswith(w) for w in wanted)
    )
