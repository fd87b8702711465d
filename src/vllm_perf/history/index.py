# SPDX-License-Identifier: Apache-2.0
"""A cache of what is in a history directory: lines appended to one file, safe to lose, never trusted blindly.

Each run is one line: file name, size, modification time and checksum, and what :class:`RunEntry` holds;
parts of environments and lists of series are written once and referred to by hash. A line whose file is gone
or has changed is not used; a line cut short by a crash is passed over. So a lost, stale or damaged index
costs time, not truth. Where only the time differs (a fresh checkout) the checksum decides, which is twenty
times faster than reading the run. It is no ``*.json``, which pytest-benchmark would try to read as a run.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vllm_perf.history.entry import RunEntry, SeriesNames, entry_of
from vllm_perf.history.environment import stable_hash
from vllm_perf.history.parts import PartKeys, PartTable
from vllm_perf.history.record import RunRecord

INDEX_NAME = ".vllm-perf-index-1"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells that a file is still the one that was read; ``crc`` is taken only when it is needed."""

    size: int
    mtime_ns: int
    crc: int | None = None

    def same_time(self, other: "Stamp") -> bool:
        """Tell whether neither size nor time has changed."""
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


@dataclass(slots=True)
class Index:
    """What the lines say: ``runs`` and ``bad`` are by file name, each with the file's stamp."""

    parts: PartTable = field(default_factory=PartTable)
    lists: dict[str, SeriesNames] = field(default_factory=dict)
    runs: dict[str, tuple[Stamp, RunEntry]] = field(default_factory=dict)
    bad: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    lines: int = 0

    def stamp_of(self, file: str) -> Stamp | None:
        """Return the stamp that ``file`` had when it was read, ``None`` where it never was."""
        known = self.runs.get(file) or self.bad.get(file)
        return known[0] if known is not None else None

    def touch(self, file: str, stamp: Stamp) -> list[str]:
        """Take up that a file has another time and the same content; return the line that says so."""
        if file in self.runs:
            self.runs[file] = (stamp, self.runs[file][1])
        elif file in self.bad:
            self.bad[file] = (stamp, self.bad[file][1])
        return [_dump(t="touch", **_stamp_fields(file, stamp))]

    def add(self, record: RunRecord, file: str, stamp: Stamp) -> list[str]:
        """Take up a run that was read from ``file``; return the lines that say so."""
        return self._take(entry_of(record, file), stamp)

    def add_bad(self, file: str, stamp: Stamp, why: str) -> list[str]:
        """Take up a file that is no record; return the line that says so."""
        self.bad[file] = (stamp, why)
        self.runs.pop(file, None)
        return [_dump(t="bad", **_stamp_fields(file, stamp), why=why)]

    def compacted(self, files: Collection[str]) -> list[str]:
        """Return the lines of an index of ``files`` alone."""
        fresh = Index()
        lines = []
        for file, (stamp, entry) in self.runs.items():
            if file in files:
                lines += fresh._take(entry, stamp)
        for file, (stamp, why) in self.bad.items():
            if file in files:
                lines += fresh.add_bad(file, stamp, why)
        return lines

    def _take(self, entry: RunEntry, stamp: Stamp) -> list[str]:
        lines = []
        for key in dict.fromkeys(key for keys in entry.cells.values() for key in keys):
            if key not in self.parts.plain:
                self.parts.plain[key] = entry.parts.plain[key]
                lines.append(_dump(t="part", k=key, v=entry.parts.plain[key]))
        digest = stable_hash(entry.names.lines())
        if digest not in self.lists:
            self.lists[digest] = entry.names
            lines.append(_dump(t="list", k=digest, v=entry.names.lines()))
        self.runs[entry.file] = (stamp, replace(entry, parts=self.parts, names=self.lists[digest]))
        self.bad.pop(entry.file, None)
        return [*lines, _run_line(entry, stamp, digest)]


def read_index(path: Path) -> Index:
    """Return what the index at ``path`` says; an absent or unreadable one says nothing."""
    index = Index()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return index
    for line in text.splitlines():
        index.lines += 1
        try:
            _read_line(index, json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
    return index


def _read_line(index: Index, line: Mapping[str, Any]) -> None:
    kind = line["t"]
    if kind == "part":
        index.parts.plain[line["k"]] = line["v"]
    elif kind == "list":
        index.lists[line["k"]] = SeriesNames.from_lines(line["v"])
    elif kind == "bad":
        index.bad[line["file"]] = (_stamp(line), line["why"])
        index.runs.pop(line["file"], None)
    elif kind == "run":
        index.runs[line["file"]] = (_stamp(line), _entry(index, line))
        index.bad.pop(line["file"], None)
    elif kind == "touch":
        index.touch(line["file"], _stamp(line))


def _stamp(line: Mapping[str, Any]) -> Stamp:
    return Stamp(line["size"], line["mtime"], line["crc"])


def _stamp_fields(file: str, stamp: Stamp) -> dict[str, Any]:
    return {"file": file, "size": stamp.size, "mtime": stamp.mtime_ns, "crc": stamp.crc}


def _entry(index: Index, line: Mapping[str, Any]) -> RunEntry:
    cells = {(engine, workload): PartKeys(*keys) for engine, workload, *keys in line["cells"]}
    for keys in cells.values():
        if not all(key in index.parts.plain for key in keys):
            raise KeyError(keys)
    return RunEntry(
        file=line["file"],
        run_id=line["run_id"],
        created=line["created"],
        commit=line["commit"],
        branch=line["branch"],
        dirty=line["dirty"],
        complete=line["complete"],
        cells=cells,
        parts=index.parts,
        names=index.lists[line["list"]],
        ends=line["ends"],
        packed=line["packed"],
    )


def _run_line(entry: RunEntry, stamp: Stamp, digest: str) -> str:
    return _dump(
        t="run",
        **_stamp_fields(entry.file, stamp),
        run_id=entry.run_id,
        created=entry.created,
        commit=entry.commit,
        branch=entry.branch,
        dirty=entry.dirty,
        complete=entry.complete,
        cells=[[*cell, *keys] for cell, keys in entry.cells.items()],
        list=digest,
        ends=entry.ends,
        packed=entry.packed,
    )


def _dump(**fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)
