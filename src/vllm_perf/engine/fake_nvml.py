# SPDX-License-Identifier: Apache-2.0
"""An NVML whose GPUs, readings and processes are what the test says they are."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_perf.engine.nvml import Gpu, GpuProcess, GpuReading


def fake_gpu(index: int = 0, name: str = "Test GPU", parent_uuid: str | None = None) -> Gpu:
    """Return a GPU of 80 GiB; its UUID begins with kind and index (``GPU-0…``, of a slice ``MIG-0…``)."""
    kind = "GPU" if parent_uuid is None else "MIG"
    return Gpu(
        index=index,
        uuid=f"{kind}-{index}0000000-aaaa",
        name=name,
        memory_mib=81_920,
        driver="580.1",
        power_cap_w=700.0,
        parent_uuid=parent_uuid,
    )


@dataclass(slots=True, kw_only=True)
class FakeNvml:
    """Play back ``readings`` one a look, the last one for ever; ``looks`` counts what was really asked."""

    cards: tuple[Gpu, ...] = field(default_factory=lambda: (fake_gpu(),))
    mig: dict[str, tuple[Gpu, ...]] = field(default_factory=dict)
    readings: Sequence[GpuReading] = (GpuReading(),)
    on_gpu: dict[str, tuple[GpuProcess, ...]] = field(default_factory=dict)
    looks: int = 0

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the cards given."""
        return self.cards

    def slices(self, uuid: str) -> tuple[Gpu, ...]:
        """Return the slices given for that card."""
        return self.mig.get(uuid, ())

    def read(self, gpu: Gpu) -> GpuReading:
        """Return the next reading."""
        reading = self.readings[min(self.looks, len(self.readings) - 1)]
        self.looks += 1
        return reading

    def processes(self, gpu: Gpu) -> tuple[GpuProcess, ...]:
        """Return the processes given for that GPU."""
        return self.on_gpu.get(gpu.uuid, ())
