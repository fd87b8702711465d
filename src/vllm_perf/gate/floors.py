# SPDX-License-Identifier: Apache-2.0
"""What a gate learns about noise: boots of one engine, compared with each other, filed beside the history."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_perf.gate.boot import Boot, Pair, sent
from vllm_perf.gate.sides import side_of
from vllm_perf.gate.spoiled import spoiled
from vllm_perf.history.environment import Environment, Hardware, Software, Workload
from vllm_perf.history.floors import floor_hardware, learn_floors, read_floors
from vllm_perf.spec.history import IdentitySpec
from vllm_perf.verdict.comparison import aa_log_ratios
from vllm_perf.verdict.noise import NoiseFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The floors of one machine, filed as the history files them: by hardware, workload and metric."""

    folder: Path
    hardware: Hardware

    def read(self, workload: str) -> dict[str, NoiseFloor]:
        """Return what is known of a workload, by metric; nothing where nothing was learnt yet.

        Raises:
            StoreError: the file is damaged.
        """
        return read_floors(self.folder).of(self._machine, workload)

    def learn(self, workload: str, boots: Sequence[Boot]) -> int:
        """Add what boots of one engine show; return how many pairs of boots that were.

        Raises:
            StoreError: the file is damaged or cannot be written.
        """
        cells = [cell for boot in boots if (cell := boot.cell(workload)) is not None]
        ratios = aa_log_ratios([side_of(cell) for cell in cells])
        if not ratios:
            return 0
        learn_floors(self.folder, self._machine, workload, ratios)
        return max(len(values) for values in ratios.values())

    @property
    def _machine(self) -> str:
        nothing = Workload(workload="", model="")
        where = Environment(hardware=self.hardware, software=Software(), workload=nothing)
        return floor_hardware(where, IdentitySpec())


def boots_of_one_engine(pairs: Sequence[Pair], workload: str, *, same_engine: bool) -> list[Boot]:
    """Return the boots that tell about noise alone, in the order of booting.

    The base's; with ``same_engine`` (an A/A gate) the head's as well. Spoiled pairs are left out.
    """
    kept = [pair for pair in sent(pairs, workload) if not spoiled(pair, workload)]
    boots = [boot for pair in kept for boot in ((pair.base, pair.head) if same_engine else (pair.base,))]
    return sorted(boots, key=lambda boot: boot.started_s)
