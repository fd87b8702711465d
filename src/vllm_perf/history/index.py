# SPDX-License-Identifier: Apache-2.0
"""A cache of what is in a history directory: lines appended to one file, safe to lose, never trusted blindly.

Each run is one line: file name, size and modification time, and what :class:`RunEntry` holds; parts of
environments and lists of series are written once and referred to by hash. A line whose file has another size
or time, or is gone, is not used; a line cut short by a crash is passed over. So a lost, stale or damaged
index costs time, not truth. It is no ``*.json``, which pytest-benchmark would try to read as a run.
"""

import json
from collections.abc import Mapping
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
    """What tells that a file is still the one that was read."""

    size: int
    mtime_ns: int


@dataclass(slots=True)
class Index:
    """What the lines say: ``runs`` and ``bad`` are by file name, each with the file's stamp."""

    parts: PartTable = field(default_factory=PartTable)
    lists: dict[str, SeriesNames] = field(default_factory=dict)
    runs: dict[str, tuple[Stamp, RunEntry]] = field(default_factory=dict)
    bad: dict[str, tuple[Stamp, str]] = field(default_factory=dict)
    lines: int = 0

    def knows(self, file: str, stamp: Stamp) -> bool:
        """Tell whether ``file``, as it is now, has been read already."""
        known = self.runs.get(file) or self.bad.get(file)
        return known is not None and known[0] == stamp

    def add(self, record: RunRecord, file: str, stamp: Stamp) -> list[str]:
        """Take up a run that was read from ``file``; return the lines that say so."""
        return self._take(entry_of(record, file), stamp)

    def add_bad(self, file: str, stamp: Stamp, why: str) -> list[str]:
        """Take up a file that is no record; return the line that says so."""
        self.bad[file] = (stamp, why)
        self.runs.pop(file, None)
        return [_dump(t="bad", file=file, size=stamp.size, mtime=stamp.mtime_ns, why=why)]

    def compacted(self, stamps: Mapping[str, Stamp]) -> list[str]:
        """Return the lines of an index of those files alone that are there as they were read."""
        fresh = Index()
        lines = []
        for file, (stamp, entry) in self.runs.items():
            if stamps.get(file) == stamp:
                lines += fresh._take(entry, stamp)
        for file, (stamp, why) in self.bad.items():
            if stamps.get(file) == stamp:
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
        index.bad[line["file"]] = (Stamp(line["size"], line["mtime"]), line["why"])
        index.runs.pop(line["file"], None)
    elif kind == "run":
        index.runs[line["file"]] = (Stamp(line["size"], line["mtime"]), _entry(index, line))
        index.bad.pop(line["file"], None)


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
        file=entry.file,
        size=stamp.size,
        mtime=stamp.mtime_ns,
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
