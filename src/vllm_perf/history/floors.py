# SPDX-License-Identifier: Apache-2.0
"""The noise floors learnt on each kind of hardware, kept beside the runs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from vllm_perf.history import atomic
from vllm_perf.history.environment import Environment, identity, stable_hash
from vllm_perf.history.store import LOCK_NAME, LOCK_TIMEOUT_S, StoreError
from vllm_perf.spec.history import IdentitySpec
from vllm_perf.verdict.noise import NoiseBook

# No *.json: pytest-benchmark would try to read it as a run.
FLOORS_NAME = "noise-floors.jsonl"
USED = "learnt_from"


def floor_hardware(environment: Environment, policy: IdentitySpec) -> str:
    """Return the key that a floor is filed under: the identity fields of the machine."""
    fields = identity(environment, policy)
    return stable_hash({name: value for name, value in fields.items() if name.startswith("hardware.")})


def read_floors(directory: Path) -> NoiseBook:
    """Return the floors learnt so far; none where there is no file.

    Raises:
        StoreError: the file is damaged; a gate must not run on a floor it believes to be unknown.
    """
    return _read(directory)[0]


def runs_learnt_from(directory: Path) -> frozenset[str]:
    """Return the ids of the stored runs that floors were learnt from already.

    Raises:
        StoreError: the file is damaged.
    """
    return _read(directory)[1]


def learn_floors(
    directory: Path,
    hardware: str,
    workload: str,
    log_ratios: Mapping[str, Sequence[float]],
    runs: Iterable[str] = (),
) -> NoiseBook:
    """Add A/A pairs (metric to log ratios) and return all floors; two learners at once lose nothing.

    ``runs`` are the ids of stored runs the pairs are from, remembered so that they are not counted twice.

    Raises:
        StoreError: the file is damaged.
        OSError: it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with FileLock(directory / LOCK_NAME, timeout=LOCK_TIMEOUT_S):
        known, used = _read(directory)
        book = known.learn(hardware, workload, log_ratios)
        rows = [*book.to_json(), {USED: sorted(used.union(runs))}]
        text = "\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n"
        atomic.replace(directory / FLOORS_NAME, text.encode())
    return book


def _read(directory: Path) -> tuple[NoiseBook, frozenset[str]]:
    path = directory / FLOORS_NAME
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        used = frozenset(name for row in rows for name in row.get(USED, ()))
        return NoiseBook.from_json(row for row in rows if USED not in row), used
    except FileNotFoundError:
        return NoiseBook(), frozenset()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: damaged ({error}); delete it to learn the floors anew") from error
