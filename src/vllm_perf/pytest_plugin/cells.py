# SPDX-License-Identifier: Apache-2.0
"""Share measured cells between the processes of one session, and with a session that takes over.

A cell is claimed by creating a file, measured once, and published whole. Under xdist whoever needs a cell
that another worker has claimed waits for it; a crashed claimant is noticed.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from vllm_perf.history import atomic
from vllm_perf.lab.result import CellResult, from_json, to_json
from vllm_perf.pytest_plugin.owner import Owner

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class CellFolder:
    """The cells of one session, one file each; ``*.worker`` files name the processes that measure."""

    folder: Path

    def _path(self, engine: str, workload: str, suffix: str) -> Path:
        return self.folder / f"{quote(engine, safe='')}--{quote(workload, safe='')}.{suffix}"

    def load(self, engine: str, workload: str) -> CellResult | None:
        """Return a published cell; a file that is not one is removed, so that it is measured again."""
        return _read(self._path(engine, workload, "json"))

    def publish(self, result: CellResult) -> None:
        """Write a cell whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(result.engine, result.workload, "json")
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(to_json(result))
        partial.replace(path)

    def claim(self, engine: str, workload: str) -> bool:
        """Take the right to measure a cell; ``False`` when another living process has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(engine, workload, "claim")
        for _ in range(2):
            try:
                atomic.write_new(path, str(Owner.me()).encode())
                return True
            except FileExistsError:
                if self._held_by_another(path):
                    return False
                path.unlink(missing_ok=True)
        return False

    def _held_by_another(self, claim: Path) -> bool:
        """Tell whether a claim is another living process's; our own is left from a test that failed."""
        try:
            owner = Owner.parse(claim.read_text())
        except OSError:
            return False  # gone this moment
        return owner is not None and owner.pid != os.getpid() and owner.lives

    def join(self) -> None:
        """Say that this process measures cells of the session."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{os.getpid()}.worker").write_text(str(Owner.me()))

    def leave(self) -> None:
        """Say that this process measures nothing any more."""
        (self.folder / f"{os.getpid()}.worker").unlink(missing_ok=True)

    def others(self) -> tuple[int, ...]:
        """Return the pids of the other living processes that measure cells of the session."""
        owners = []
        for path in self.folder.glob("*.worker"):
            try:
                owners.append(Owner.parse(path.read_text()))
            except OSError:
                continue
        return tuple(one.pid for one in owners if one and one.pid != os.getpid() and one.lives)

    def obtain(
        self,
        engine: str,
        workload: str,
        measure: Callable[[], CellResult],
        waiting: Callable[[], None],
        *,
        patient: bool = False,
    ) -> CellResult:
        """Return the cell: published already, measured by ``measure`` now, or by another worker meanwhile.

        ``waiting`` is called once before this process waits for another: it must give its engine back, or
        the two would wait for each other. ``patient``: leave the cell to the other workers as long as there
        are any; its engine is theirs.
        """
        announced = False
        while True:
            found = self.load(engine, workload)
            if found is not None:
                return found
            mine = not (patient and self.others()) and self.claim(engine, workload)
            if mine:
                # Published between our look and our claim, by a worker that is gone by now?
                found = self.load(engine, workload)
                if found is not None:
                    return found
                result = measure()
                self.publish(result)
                return result
            if not announced:
                waiting()
                announced = True
            time.sleep(POLL_S)

    def tidy(self, worth_keeping: Callable[[CellResult], bool]) -> tuple[CellResult, ...]:
        """Remove claims, halves and cells not worth keeping; return those that are left, in name order."""
        kept = []
        for path in sorted(self.folder.iterdir()):
            if path.suffix in (".claim", ".worker", ".partial", ".tmp"):
                path.unlink(missing_ok=True)
            elif path.suffix == ".json":
                cell = _read(path)
                if cell is not None and worth_keeping(cell):
                    kept.append(cell)
                else:
                    path.unlink(missing_ok=True)
        return tuple(kept)


def _read(path: Path) -> CellResult | None:
    try:
        return from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        path.unlink(missing_ok=True)
        return None
