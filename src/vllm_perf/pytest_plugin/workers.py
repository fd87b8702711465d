# SPDX-License-Identifier: Apache-2.0
"""What xdist's controller and workers tell each other: where the cells are, and which GPUs a worker gets."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.pytest_plugin.owner import Owner

FOLDER, OWNER = "vllm_perf_cells", "vllm_perf_owner"
NAME = pytest.StashKey[str]()


def session_name(config: pytest.Config) -> str:
    """Return this session's name; a worker has the controller's."""
    given = getattr(config, "workerinput", {}).get(FOLDER)
    if given is not None:
        return str(given)
    if NAME not in config.stash:
        config.stash[NAME] = secrets.token_hex(6)
    return config.stash[NAME]


def session_owner(config: pytest.Config) -> Owner:
    """Return the process that the session belongs to; a worker's is the controller."""
    given = Owner.parse(str(getattr(config, "workerinput", {}).get(OWNER, "")))
    return given or Owner.me()


def is_worker(config: pytest.Config) -> bool:
    """Tell whether this process is one of xdist's workers."""
    return hasattr(config, "workerinput")


def prepare_node(node: Any) -> None:
    """Give a worker the session's name before it starts."""
    node.workerinput[FOLDER] = session_name(node.config)
    node.workerinput[OWNER] = str(Owner.me())


def deal_gpus(gpus: Sequence[str], worker: int, per_engine: int) -> tuple[str, ...]:
    """Return the GPUs of one worker: its own set while there are enough, else a set it shares by the lock."""
    if len(gpus) < per_engine or not gpus:
        return tuple(gpus)
    sets = len(gpus) // per_engine
    start = (worker % sets) * per_engine
    return tuple(gpus[start : start + per_engine])


def worker_number(config: pytest.Config) -> int:
    """Return the number in a worker's id (``gw1`` is 1)."""
    identity = str(getattr(config, "workerinput", {}).get("workerid", "gw0"))
    return int(identity.removeprefix("gw") or 0) if identity.removeprefix("gw").isdigit() else 0


def take_gpus(config: pytest.Config, gpus: Sequence[str], per_engine: int) -> None:
    """Show this worker only its GPUs."""
    if is_worker(config) and gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(deal_gpus(gpus, worker_number(config), per_engine))


def session_folder(work_dir: Path) -> Path:
    """Return where the sessions of a checkout have their folders."""
    return work_dir / "sessions"


def cell_folder(work_dir: Path, config: pytest.Config) -> Path:
    """Return where this session's cells are."""
    return session_folder(work_dir) / session_name(config)
