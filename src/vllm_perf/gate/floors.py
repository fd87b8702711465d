# SPDX-License-Identifier: Apache-2.0
"""The noise floors learnt from boots of one engine: one file beside the history, safe with two writers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from vllm_perf.gate.boot import Boot, Pair, sent
from vllm_perf.gate.sides import side_of
from vllm_perf.gate.spoiled import spoiled
from vllm_perf.history import atomic
from vllm_perf.history.environment import Hardware, stable_hash
from vllm_perf.spec.history import IdentitySpec
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.comparison import aa_log_ratios
from vllm_perf.verdict.noise import NoiseBook, NoiseFloor

LOCK_WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorStore:
    """The floors of one kind of hardware; ``model`` is what is served, because it decides how noisy it is."""

    folder: Path
    hardware: str
    model: str

    def read(self, workload: WorkloadSpec) -> dict[str, NoiseFloor]:
        """Return what is known of a workload, by metric; nothing where nothing was learnt yet."""
        return self._book().of(self.hardware, self._key(workload))

    def learn(self, workload: WorkloadSpec, boots: Sequence[Boot]) -> int:
        """Add what boots of one engine show; return how many pairs of boots that were."""
        cells = [cell for boot in boots if (cell := boot.cell(workload.name)) is not None]
        measured = [cell for cell in cells if cell.cell is not None and not cell.invalid]
        ratios = aa_log_ratios([side_of(cell) for cell in measured])
        if not ratios:
            return 0
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self._path.with_suffix(".lock"), timeout=LOCK_WAIT_S):
            book = self._book().learn(self.hardware, self._key(workload), ratios)
            atomic.replace(self._path, json.dumps(book.to_json(), indent=1).encode())
        return max(len(values) for values in ratios.values())

    @property
    def _path(self) -> Path:
        return self.folder / "floors.json"

    def _key(self, workload: WorkloadSpec) -> str:
        # A workload that was edited, or another model, is another workload to its noise.
        return f"{workload.name}@{stable_hash([workload.model_dump(mode='json'), self.model])[:8]}"

    def _book(self) -> NoiseBook:
        try:
            return NoiseBook.from_json(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return NoiseBook()


def hardware_key(hardware: Hardware) -> str:
    """Return the key of the machine, over the fields that must match before two runs are compared."""
    every = asdict(hardware)
    return stable_hash({name: every[name] for name in IdentitySpec().fields("hardware")})


def boots_of_one_engine(pairs: Sequence[Pair], workload: str, *, same_engine: bool) -> list[Boot]:
    """Return the boots that tell about noise alone, in the order of booting.

    The base's; with ``same_engine`` (an A/A gate) the head's as well. Spoiled pairs are left out.
    """
    kept = [pair for pair in sent(pairs, workload) if not spoiled(pair, workload)]
    boots = [boot for pair in kept for boot in ((pair.base, pair.head) if same_engine else (pair.base,))]
    return sorted(boots, key=lambda boot: boot.started_s)
