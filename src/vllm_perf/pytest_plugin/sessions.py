# SPDX-License-Identifier: Apache-2.0
"""The folders that sessions keep their measured cells in: whose they are, and which may be taken over.

A session that ends normally removes its folder. One that was interrupted or killed leaves it, with a
manifest that says what was being measured: ``--perf-resume`` continues where the same is measured again.
"""

import json
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vllm_perf import __version__
from vllm_perf.engine.errors import LabError
from vllm_perf.engine.install import GOLDEN, find_install
from vllm_perf.history import atomic
from vllm_perf.history.environment import stable_hash
from vllm_perf.history.git import Suite
from vllm_perf.history.hardware import probe_hardware
from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin.cells import CellFolder
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.pytest_plugin.owner import Owner
from vllm_perf.pytest_plugin.plan import Plan

MANIFEST = "session.manifest"
KEPT_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a session measures (``fingerprint``), who measures it, and what it has recorded already.

    ``records`` are the run ids that an interrupted session saved: they hold the same cells, and comparing
    a resumed session with them would compare it with itself.
    """

    fingerprint: str
    owner_pid: int
    owner_created: float
    records: tuple[str, ...] = ()

    @property
    def owner(self) -> Owner:
        """Return the process that the session belongs to."""
        return Owner(self.owner_pid, self.owner_created)


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The cells of an interrupted session that need not be measured again."""

    cells: tuple[str, ...]
    records: tuple[str, ...]


def fingerprint(config: PerfConfig, plan: Plan, suite: Suite, versions: tuple[str, ...]) -> str:
    """Return the same text for sessions whose cells mean the same: engines, loads, versions, machine."""
    hardware = probe_hardware()
    return stable_hash(
        {
            "engines": [engine.model_dump_json() for engine in plan.engines],
            "workloads": [workload.model_dump_json() for workload in plan.workloads],
            "versions": list(versions),
            "gpus": list(plan.machine.devices),
            "cpu": [hardware.cpu_model, hardware.cpu_count],
            "suite": [suite.commit, suite.dirty],
            "server": plan.channel.spec.base_url if plan.channel else config.base_url,
            "client": config.client,
        }
    )


def versions_of(plan: Plan, config: PerfConfig) -> tuple[str, ...]:
    """Return the versions of this project and of each vLLM that it boots."""
    found = [__version__]
    pythons = {engine.python for engine in plan.engines if engine.platform != GOLDEN}
    for python in () if config.base_url or config.channel else sorted(pythons, key=str):
        try:
            found.append(f"{python}: {find_install(python).version}")
        except LabError:
            found.append(f"{python}: none")
    return tuple(found)


def open_folder(folder: Path, mark: str, owner: Owner) -> None:
    """Make a session's folder and say whose it is; the first of its processes does."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        _write(folder, Manifest(fingerprint=mark, owner_pid=owner.pid, owner_created=owner.created), new=True)


def read_manifest(folder: Path) -> Manifest | None:
    """Return a folder's manifest, or ``None`` where there is none that can be read."""
    try:
        data = json.loads((folder / MANIFEST).read_text())
        return Manifest(**{**data, "records": tuple(data["records"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def note_record(folder: Path, run_id: str) -> None:
    """Take note that an interrupted session saved its cells as a run."""
    manifest = read_manifest(folder)
    if manifest is not None:
        _write(folder, replace(manifest, records=(*manifest.records, run_id)))


def take_over(sessions: Path, folder: Path, mark: str, owner: Owner) -> Takeover | None:
    """Make the newest unfinished session of the same fingerprint ours; ``None`` where there is none.

    Only cells that were measured and may be judged are kept: a failed or invalid one is worth another try.
    """
    for candidate in sorted(_folders(sessions), key=_modified, reverse=True):
        manifest = read_manifest(candidate)
        if manifest is None or manifest.fingerprint != mark or manifest.owner.lives:
            continue
        if CellFolder(candidate).others():
            continue  # a worker has not noticed yet that its controller was killed
        try:
            candidate.rename(folder)  # whoever else resumes it at the same moment finds it gone
        except OSError:
            continue
        _write(folder, replace(manifest, owner_pid=owner.pid, owner_created=owner.created))
        kept = CellFolder(folder).tidy(_worth_keeping)
        return Takeover(
            cells=tuple(f"{cell.engine} under {cell.workload}" for cell in kept), records=manifest.records
        )
    return None


def prune(sessions: Path, older_than_s: float = KEPT_S) -> tuple[str, ...]:
    """Remove the folders of dead sessions that nobody came back to for a week; return their names."""
    gone = []
    for folder in _folders(sessions):
        manifest = read_manifest(folder)
        old = time.time() - _modified(folder) > older_than_s
        if old and (manifest is None or not manifest.owner.lives):
            shutil.rmtree(folder, ignore_errors=True)
            gone.append(folder.name)
    return tuple(gone)


def _worth_keeping(cell: CellResult) -> bool:
    return cell.failure is None and not cell.invalid


def _folders(sessions: Path) -> list[Path]:
    try:
        return [path for path in sessions.iterdir() if path.is_dir()]
    except OSError:
        return []


def _modified(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _write(folder: Path, manifest: Manifest, *, new: bool = False) -> None:
    write = atomic.write_new if new else atomic.replace
    write(folder / MANIFEST, json.dumps(asdict(manifest)).encode())
