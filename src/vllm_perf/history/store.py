# SPDX-License-Identifier: Apache-2.0
"""A directory of records: written atomically, never changed, read past whatever is damaged.

Layout: ``YYYY_MMDDThhmmssffffffZ_<commit>_<run id>.json`` lie in the directory itself, because
pytest-benchmark looks there and, when not told which run, for names that begin with four digits and ``_``.
Such names sort by time, need no counter (two writers cannot meet, nothing ends at 9999), and are unique by
the run's id. Beside them lie ``anchors.toml`` and an index that may be deleted at any time.
"""

import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from vllm_perf.history import atomic
from vllm_perf.history.document import RecordError, from_json, to_json
from vllm_perf.history.entry import RunEntry
from vllm_perf.history.index import INDEX_NAME, Index, Stamp, read_index
from vllm_perf.history.record import RunRecord

LOCK_NAME = ".vllm-perf-lock"
LOCK_TIMEOUT_S = 10.0
# From so many runs to read on, reading takes a second or more, and a user is told.
WORTH_SAYING = 100


class StoreError(Exception):
    """Say which run or directory cannot be used, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a directory holds: ``runs`` oldest first, ``warnings`` one sentence a file that was skipped."""

    runs: tuple[RunEntry, ...]
    warnings: tuple[str, ...] = ()


def new_run_id() -> str:
    """Return 12 random hex digits."""
    return secrets.token_hex(6)


def utc_now() -> str:
    """Return the wall time as a label, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def file_name(record: RunRecord) -> str:
    """Return the name of the file that ``record`` is stored in.

    Raises:
        StoreError: its time of creation is no ISO 8601 time.
    """
    try:
        created = datetime.fromisoformat(record.created).astimezone(UTC)
    except ValueError as error:
        raise StoreError(f"run {record.run_id}: created '{record.created}' is no ISO 8601 time") from error
    commit = re.sub(r"[^0-9a-z]", "", record.suite.commit or "")[:9] or "nocommit"
    dirty = "-dirty" if record.suite.dirty else ""
    return f"{created:%Y_%m%dT%H%M%S%fZ}_{commit}{dirty}_{record.run_id}.json"


def load_file(path: Path) -> RunRecord:
    """Return the run in the file at ``path``.

    Raises:
        StoreError: it cannot be read, or is no record.
    """
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, RecordError) as error:
        raise StoreError(f"{path}: {error}") from error


class Store:
    """The history in one directory, which need not exist before the first save."""

    def __init__(self, directory: Path, say: Callable[[str], None] | None = None) -> None:
        """Keep what is told; ``say`` hears of work that takes seconds."""
        self.directory = directory
        self._say = say or (lambda _text: None)

    def save(self, record: RunRecord) -> Path:
        """Write ``record`` to a new file and return its path; no reader ever sees half of it.

        Raises:
            StoreError: the directory cannot be written, or holds this run already.
        """
        path = self.directory / file_name(record)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.directory}: cannot be written: {error.strerror or error}") from error
        try:
            atomic.write_new(path, to_json(record).encode("ascii"))
        except FileExistsError as error:
            raise StoreError(f"{path}: exists already; a record is never changed") from error
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
        return path

    def require_writable(self) -> None:
        """Find out, before anything is measured, whether a run could be saved; creates nothing.

        Raises:
            StoreError: it could not.
        """
        place = next(path for path in (self.directory, *self.directory.parents) if path.exists())
        if not place.is_dir() or not os.access(place, os.W_OK):
            what = "not writable" if place.is_dir() else "not a folder"
            raise StoreError(f"{self.directory}: no run can be stored there: {place} is {what}")

    def contents(self) -> Contents:
        """Return every readable run, by the index where that is up to date, and what was skipped.

        Raises:
            StoreError: the directory is there and cannot be read.
        """
        stamps = self._stamps()
        index = read_index(self.directory / INDEX_NAME)
        unread = sum(index.stamp_of(name) is None for name in stamps)
        if unread >= WORTH_SAYING:
            self._say(
                f"reading {unread:,} stored runs that no index holds yet (once; a thousand take seconds)"
            )
        lines = [line for name, stamp in stamps.items() for line in self._bring_up(index, name, stamp)]
        if lines:
            self._write_index(index, stamps, lines)
        runs = [entry for name, (_, entry) in index.runs.items() if name in stamps]
        bad = {name: why for name, (_, why) in index.bad.items() if name in stamps}
        return Contents(
            runs=tuple(sorted(runs, key=lambda entry: (entry.created, entry.file))),
            warnings=tuple(f"{self.directory / name}: skipped: {bad[name]}" for name in sorted(bad)),
        )

    def load(self, file: str) -> RunRecord:
        """Return the run stored in ``file``.

        Raises:
            StoreError: it cannot be read, or is no record.
        """
        return load_file(self.directory / file)

    def remove(self, files: Iterable[str]) -> list[str]:
        """Delete runs; return a sentence for each that could not be."""
        failures = []
        for file in files:
            try:
                (self.directory / file).unlink(missing_ok=True)
            except OSError as error:
                failures.append(f"{self.directory / file}: cannot be deleted: {error.strerror or error}")
        return failures

    def _stamps(self) -> dict[str, Stamp]:
        try:
            with os.scandir(self.directory) as entries:
                files = sorted((e for e in entries if e.name.endswith(".json")), key=lambda e: e.name)
                return {e.name: _stamp(e.stat()) for e in files if e.is_file()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(f"{self.directory}: cannot be read: {error.strerror or error}") from error

    def _bring_up(self, index: Index, name: str, stamp: Stamp) -> list[str]:
        """Make the index say what one file holds now; return the lines to add."""
        known = index.stamp_of(name)
        if known is not None and known.same_time(stamp):
            return []
        try:
            data = (self.directory / name).read_bytes()
        except OSError as error:  # removed since the directory was listed, or not ours to read
            return index.add_bad(name, stamp, f"cannot be read: {error.strerror or error}")
        stamp = Stamp(len(data), stamp.mtime_ns, zlib.crc32(data))
        if known is not None and (known.size, known.crc) == (stamp.size, stamp.crc):
            return index.touch(name, stamp)
        try:
            return index.add(from_json(data.decode("utf-8")), name, stamp)
        except (UnicodeDecodeError, RecordError) as error:
            return index.add_bad(name, stamp, str(error))

    def _write_index(self, index: Index, stamps: dict[str, Stamp], lines: list[str]) -> None:
        """Append what was read; start anew where most lines are about files that are gone.

        Where it cannot be written (read-only directory, lock held for long) the next reader reads again.
        """
        path = self.directory / INDEX_NAME
        stale = sum(name not in stamps for name in (*index.runs, *index.bad))
        with suppress(OSError, Timeout), FileLock(self.directory / LOCK_NAME, timeout=LOCK_TIMEOUT_S):
            if stale > len(stamps):
                atomic.replace(path, "\n".join(index.compacted(stamps.keys())).encode("ascii"))
            else:
                _append(path, lines)


def _append(path: Path, lines: list[str]) -> None:
    """Append after a line feed of our own: the last writer may have died within a line."""
    with path.open("ab") as file:
        file.write(("\n" + "\n".join(lines) + "\n").encode("ascii"))


def _stamp(stat: os.stat_result) -> Stamp:
    return Stamp(stat.st_size, stat.st_mtime_ns)
