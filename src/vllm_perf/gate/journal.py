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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vllm_perf.gate.boot import Boot, Pair
from vllm_perf.verdict.sequential import SideName

# Half a pair is only worth finishing while the machine is still in the state that its first half saw.
HALF_PAIR_KEEPS_S = 1800.0
# An unfinished gate older than this is another day's work.
KEEPS_S = 24 * 3600.0
BOOT: TypeAdapter[Boot] = TypeAdapter(Boot)


@dataclass(slots=True, kw_only=True)
class Journal:
    """The boots of one gate, in memory and on disk; ``resumed`` counts those of an earlier, killed one."""

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
            _set_aside(path)
            journal = cls(path=path)
            journal._append({"compares": identity, "started_s": now})
            return journal
        # A cut last line is taken away, so that what is appended next stands on a line of its own.
        os.truncate(path, found.good_bytes)
        return cls(path=path, boots=found.boots, resumed=len(found.boots))

    def add(self, boot: Boot) -> None:
        """Keep one finished boot; it survives whatever happens next."""
        packs: dict[str, str] = {}  # per-request values, packed; the boot holds their digests
        self._append({"boot": BOOT.dump_python(boot, mode="json", context=packs), "packs": packs})
        _take(self.boots, boot)

    def close(self, outcome: str) -> None:
        """Mark the gate as finished."""
        self._append({"closed": outcome})

    def find(self, pair: int, side: SideName) -> Boot | None:
        """Return a boot that was measured already, or ``None``."""
        return next((boot for boot in self.boots if (boot.slot.pair, boot.slot.side) == (pair, side)), None)

    def half(self, pair: int, now_s: float) -> Boot | None:
        """Return the one boot of a pair that was cut in half, if it is recent enough to be finished now."""
        boots = [boot for boot in self.boots if boot.slot.pair == pair]
        if len(boots) == 1 and now_s - (boots[0].started_s + boots[0].took_s) <= HALF_PAIR_KEEPS_S:
            return boots[0]
        return None

    def pairs(self) -> list[Pair]:
        """Return the finished pairs, in order."""
        numbers = sorted({boot.slot.pair for boot in self.boots})
        both = [(self.find(number, "base"), self.find(number, "head")) for number in numbers]
        return [Pair(base=base, head=head) for base, head in both if base is not None and head is not None]

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
    boots: list[Boot] = field(default_factory=list)
    closed: bool = False
    newest_s: float = 0.0
    good_bytes: int = 0


def _read(path: Path) -> _Found | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = _Found()
    for line in data.splitlines(keepends=True):
        if not _read_line(line, found):
            break
        found.good_bytes += len(line)
    return found if found.good_bytes else None


def _read_line(line: bytes, found: _Found) -> bool:
    """Take one line up; return whether it was whole."""
    if not line.endswith(b"\n"):
        return False
    try:
        entry = json.loads(line)
        boot = BOOT.validate_python(entry["boot"], context=entry["packs"]) if "boot" in entry else None
        found.newest_s = max(found.newest_s, float(entry.get("started_s", 0.0)))
    except (ValueError, ValidationError, TypeError, AttributeError, KeyError):
        return False
    found.closed = found.closed or "closed" in entry
    if boot is not None:
        _take(found.boots, boot)
        found.newest_s = max(found.newest_s, boot.started_s + boot.took_s)
    return True


def _take(boots: list[Boot], boot: Boot) -> None:
    """Add a boot; one of the same place measured earlier gives way."""
    place = (boot.slot.pair, boot.slot.side)
    boots[:] = [known for known in boots if (known.slot.pair, known.slot.side) != place]
    boots.append(boot)


def _set_aside(path: Path) -> None:
    """Keep a finished or outdated journal under a name of its own: raw results are never overwritten."""
    if path.exists():
        taken = list(path.parent.glob(f"{path.stem}.*.jsonl"))
        path.rename(path.with_name(f"{path.stem}.{len(taken) + 1}.jsonl"))
