# SPDX-License-Identifier: Apache-2.0
"""Keep each finished boot on disk at once, so that a gate that was killed goes on where it stopped.

One JSON line a boot, appended with one write and synced. A line that was cut by a kill is dropped on
reading. The first line says what is compared; a gate over anything else has another file. A gate that
reached its end closes its journal: run again, it measures anew.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vllm_perf.gate.boot import Boot, Pair, Phase, Slot

# Half a pair is only worth finishing while the machine is still in the state that its first half saw.
HALF_PAIR_KEEPS_S = 1800.0
# An unfinished gate older than this is another day's work.
KEEPS_S = 24 * 3600.0
BOOT: TypeAdapter[Boot] = TypeAdapter(Boot)


@dataclass(slots=True, kw_only=True)
class Journal:
    """The boots of one gate, in memory and on disk."""

    path: Path
    boots: list[Boot] = field(default_factory=list)
    resumed: int = 0

    @classmethod
    def open(cls, folder: Path, identity: dict[str, Any], now_s: float | None = None) -> "Journal":
        """Return the unfinished journal of exactly this comparison, or a new one."""
        text = json.dumps(identity, sort_keys=True, default=str)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"gate-{name}.jsonl"
        now = time.time() if now_s is None else now_s
        found = _read(path)
        if found is None or found.closed or now - found.newest_s > KEEPS_S:
            _set_aside(path, folder)
            journal = cls(path=path)
            journal._append({"compares": identity, "started_s": now})
            return journal
        # A cut last line is taken away, so that what is appended next stands on a line of its own.
        os.truncate(path, found.good_bytes)
        return cls(path=path, boots=found.boots, resumed=len(found.boots))

    def add(self, boot: Boot) -> None:
        """Keep one finished boot; it survives whatever happens next."""
        self._append({"boot": BOOT.dump_python(boot, mode="json")})
        self.boots.append(boot)

    def close(self, outcome: str) -> None:
        """Mark the gate as finished."""
        self._append({"closed": outcome})

    def find(self, slot: Slot) -> Boot | None:
        """Return a boot that was measured already, or ``None``."""
        return next((boot for boot in self.boots if boot.slot == slot), None)

    def fresh_half(self, slot: Slot, now_s: float) -> Boot | None:
        """Return the first half of a pair if it is recent enough to be finished now."""
        boot = self.find(slot)
        if boot is not None and now_s - (boot.started_s + boot.took_s) <= HALF_PAIR_KEEPS_S:
            return boot
        return None

    def drop(self, slot: Slot) -> None:
        """Forget a half pair that went stale (its line stays in the file, superseded by what follows)."""
        self.boots = [boot for boot in self.boots if boot.slot != slot]

    def pairs(self, phase: Phase) -> list[Pair]:
        """Return the finished pairs of a phase, the last attempt of each, in order."""
        last: dict[int, Pair] = {}
        for boot in self.boots:
            head = Slot(
                phase=phase,
                pair=boot.slot.pair,
                side="head",
                attempt=boot.slot.attempt,
                workloads=boot.slot.workloads,
            )
            other = self.find(head) if boot.slot.side == "base" and boot.slot.phase == phase else None
            before = last.get(boot.slot.pair)
            if other is not None and (before is None or before.slot.attempt < boot.slot.attempt):
                last[boot.slot.pair] = Pair(base=boot, head=other)
        return [last[pair] for pair in sorted(last)]

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, separators=(",", ":"), default=str).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            if os.write(file, line) != len(line):
                raise OSError(f"{self.path}: the disk is full; the last boot is not kept")
            os.fsync(file)
        finally:
            os.close(file)


@dataclass(slots=True, kw_only=True)
class _Found:
    boots: list[Boot]
    closed: bool
    newest_s: float
    good_bytes: int


def _read(path: Path) -> _Found | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = _Found(boots=[], closed=False, newest_s=0.0, good_bytes=0)
    for line in data.splitlines(keepends=True):
        entry = _entry(line)
        if entry is None:
            break
        found.good_bytes += len(line)
        found.closed = found.closed or "closed" in entry
        found.newest_s = max(found.newest_s, float(entry.get("started_s", 0.0)))
        if "boot" in entry:
            _take(found, BOOT.validate_python(entry["boot"]))
    return found if found.good_bytes else None


def _take(found: _Found, boot: Boot) -> None:
    found.boots = [known for known in found.boots if known.slot != boot.slot] + [boot]
    found.newest_s = max(found.newest_s, boot.started_s + boot.took_s)


def _entry(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry: dict[str, Any] = json.loads(line)
        if "boot" in entry:
            BOOT.validate_python(entry["boot"])
    except (ValueError, ValidationError):
        return None
    return entry if isinstance(entry, dict) else None


def _set_aside(path: Path, folder: Path) -> None:
    """Keep a finished or outdated journal under a name of its own: raw results are never overwritten."""
    if path.exists():
        taken: Sequence[Path] = list(folder.glob(f"{path.stem}.*.jsonl"))
        path.rename(folder / f"{path.stem}.{len(taken) + 1}.jsonl")
