# SPDX-License-Identifier: Apache-2.0
"""The noise floors learnt on each kind of hardware, kept beside the runs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from vllm_perf.history import atomic
from vllm_perf.history.environment import Environment, identity, stable_hash
from vllm_perf.history.store import LOCK_NAME, LOCK_TIMEOUT_S, StoreError
from vllm_perf.spec.history import IdentitySpec
from vllm_perf.verdict.noise import NoiseBook

# No *.json: pytest-benchmark would try to read it as a run.
FLOORS_NAME = "noise-floors.jsonl"


def floor_hardware(environment: Environment, policy: IdentitySpec) -> str:
    """Return the key that a floor is filed under: the identity fields of the machine."""
    fields = identity(environment, policy)
    return stable_hash({name: value for name, value in fields.items() if name.startswith("hardware.")})


def read_floors(directory: Path) -> NoiseBook:
    """Return the floors learnt so far; none where there is no file.

    Raises:
        StoreError: the file is damaged; a gate must not run on a floor it believes to be unknown.
    """
    path = directory / FLOORS_NAME
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return NoiseBook()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    try:
        return NoiseBook.from_json(json.loads(line) for line in lines if line.strip())
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: damaged ({error}); delete it to learn the floors anew") from error


def learn_floors(
    directory: Path, hardware: str, workload: str, log_ratios: Mapping[str, Sequence[float]]
) -> NoiseBook:
    """Add A/A pairs (metric to log ratios) and return all floors; two learners at once lose nothing.

    Raises:
        StoreError: the file is damaged or cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with FileLock(directory / LOCK_NAME, timeout=LOCK_TIMEOUT_S):
        book = read_floors(directory).learn(hardware, workload, log_ratios)
        lines = [json.dumps(row, allow_nan=False) for row in book.to_json()]
        atomic.replace(directory / FLOORS_NAME, ("\n".join(lines) + "\n").encode())
    return book
