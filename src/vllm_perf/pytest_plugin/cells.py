# SPDX-License-Identifier: Apache-2.0
"""Share measured cells between the processes of one session, and with a session that takes over.

A cell is claimed by creating a file, measured once, and published whole. Under xdist whoever needs a cell
that another worker has claimed waits for it; a crashed claimant is noticed by its pid.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import ValidationError

from vllm_perf.lab.result import CellResult, from_json, to_json

POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class CellFolder:
    """The cells of one session, one file each."""

    folder: Path

    def _path(self, engine: str, workload: str, suffix: str) -> Path:
        return self.folder / f"{engine}--{workload}.{suffix}".replace("/", "_")

    def load(self, engine: str, workload: str) -> CellResult | None:
        """Return a published cell; a file that is not one is removed, so that it is measured again."""
        path = self._path(engine, workload, "json")
        if not path.is_file():
            return None
        found = _read(path)
        if found is None:
            path.unlink(missing_ok=True)
        return found

    def keep_finished(self) -> list[str]:
        """Remove everything but cells that were measured; return their names ("engine under workload")."""
        names = []
        for path in sorted(self.folder.iterdir()):
            result = _read(path) if path.suffix == ".json" else None
            if result is None or result.failure is not None:
                path.unlink()
            else:
                names.append(f"{result.engine} under {result.workload}")
        return names

    def publish(self, result: CellResult) -> None:
        """Write a cell whole or not at all."""
        path = self._path(result.engine, result.workload, "json")
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(to_json(result))
        partial.replace(path)

    def claim(self, engine: str, workload: str) -> bool:
        """Take the right to measure a cell; ``False`` when a living process has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(engine, workload, "claim")
        for _ in range(2):
            try:
                with path.open("x") as file:
                    file.write(str(os.getpid()))
                return True
            except FileExistsError:
                if _alive(path):
                    return False
                path.unlink(missing_ok=True)
        return False

    def obtain(
        self, engine: str, workload: str, measure: Callable[[], CellResult], waiting: Callable[[], None]
    ) -> CellResult:
        """Return the cell: published already, measured by ``measure`` now, or by another worker meanwhile.

        ``waiting`` is called once before this process waits for another: it must give its engine back, or
        the two would wait for each other.
        """
        announced = False
        while True:
            found = self.load(engine, workload)
            if found is not None:
                return found
            if self.claim(engine, workload):
                result = measure()
                self.publish(result)
                return result
            if not announced:
                waiting()
                announced = True
            time.sleep(POLL_S)


def _read(path: Path) -> CellResult | None:
    try:
        return from_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def being_measured(folder: Path) -> bool:
    """Tell whether a living process has claimed a cell of a folder."""
    return any(_alive(path) for path in folder.glob("*.claim"))


def _alive(claim: Path) -> bool:
    try:
        pid = int(claim.read_text() or "0")
    except (OSError, ValueError):
        return True  # being written right now
    return pid == 0 or (pid != os.getpid() and psutil.pid_exists(pid))
