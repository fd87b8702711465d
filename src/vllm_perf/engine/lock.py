# SPDX-License-Identifier: Apache-2.0
"""One engine at a time per GPU set (or on the CPU): a file lock that every session on this host honours."""

import hashlib
import time
from collections.abc import Callable, Sequence

from filelock import FileLock, Timeout

from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.errors import LabBusy
from vllm_perf.engine.state import live_notes, state_folder
from vllm_perf.spec.category import Category

SAY_FIRST_AFTER_S = 0.2


def acquire(
    devices: Sequence[str], *, wait_s: float, say: Callable[[str], None], say_every_s: float = 15.0
) -> FileLock:
    """Take the lock of a device set ("cpu", or GPU UUIDs), waiting and saying so every few seconds.

    Raises:
        LabBusy: still held after ``wait_s``; the message names the engines that run now.
    """
    name = "-".join(sorted(devices))
    short = name if len(name) < 60 else hashlib.sha256(name.encode()).hexdigest()[:16]
    folder = state_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{short}.lock")
    started = time.monotonic()
    patience_s = min(wait_s, SAY_FIRST_AFTER_S)
    while True:
        try:
            lock.acquire(timeout=patience_s)
            return lock
        except Timeout:
            waited = time.monotonic() - started
            patience_s = max(0.0, min(say_every_s, wait_s - waited))
            if waited >= wait_s:
                raise _busy(name, waited) from None
            say(f"waiting for {name} ({waited:.0f} s): {_holders() or 'another session holds it'}")


def _holders() -> str:
    return ", ".join(f"engine '{note.engine}' of session {note.owner_pid}" for note in live_notes())


def _busy(name: str, waited_s: float) -> LabBusy:
    return LabBusy(
        f"{name} is in use",
        Diagnosis(
            category=Category.LAB_BUSY,
            cause="another session runs an engine on the same device; two at once would spoil both",
            evidence=f"lock held for {waited_s:.0f} s; {_holders() or 'no live note found'}",
            remedy="wait for the other session, stop it, or raise --perf-lock-wait",
        ),
    )
