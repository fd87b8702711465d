# SPDX-License-Identifier: Apache-2.0
"""What ``--perf-baseline`` names: a file, an anchor, a stored run or a commit, in that order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_perf.history.anchors import read_anchors
from vllm_perf.history.entry import RunEntry, entry_of
from vllm_perf.history.git import Git, Suite
from vllm_perf.history.lineage import Lineage, lineage_of, lineage_of_commit, lineage_of_run
from vllm_perf.history.record import RunRecord
from vllm_perf.history.store import Store, StoreError, load_file

SHORTEST_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where to look: among ``runs``, in ``lineage``. ``outside`` holds a run that is not in the store."""

    runs: tuple[RunEntry, ...]
    lineage: Lineage
    warnings: tuple[str, ...] = ()
    outside: RunRecord | None = None

    def load(self, store: Store, run: RunEntry) -> RunRecord:
        """Return the record of ``run``.

        Raises:
            StoreError: it cannot be read any more.
        """
        if self.outside is not None and run.run_id == self.outside.run_id:
            return self.outside
        return store.load(run.file)


def search_for(store: Store, ref: str | None, *, directory: Path, suite: Suite, mainline: str = "") -> Search:
    """Return where a baseline is to be looked for; ``ref=None`` is the default past of ``suite``.

    Raises:
        StoreError: ``ref`` is none of the things it may be, or the store cannot be read.
    """
    if ref is not None and (ref.endswith(".json") or "/" in ref) and Path(ref).is_file():
        record = load_file(Path(ref))
        lineage = lineage_of_run(record.run_id, ref)
        return Search(runs=(entry_of(record, ref),), lineage=lineage, outside=record)
    contents = store.contents()
    if ref is None:
        lineage = lineage_of(directory, suite, mainline)
    else:
        lineage = _named(store, contents.runs, ref, directory)
    return Search(runs=contents.runs, lineage=lineage, warnings=contents.warnings)


def _named(store: Store, runs: Sequence[RunEntry], ref: str, directory: Path) -> Lineage:
    anchors = read_anchors(store.directory)
    if ref in anchors:
        run = next((run for run in runs if run.file == anchors[ref]), None)
        if run is None:
            raise StoreError(f"anchor '{ref}' points at {anchors[ref]}, which is gone or cannot be read")
        return lineage_of_run(run.run_id, f"anchor {ref}")
    named = [run for run in runs if is_named(run, ref)]
    if len(named) == 1:
        return lineage_of_run(named[0].run_id, f"run {named[0].run_id}")
    commit = Git(directory).resolve(ref)
    if commit is not None:
        return lineage_of_commit(directory, commit, ref)
    if named:
        raise StoreError(
            f"'{ref}' is the beginning of {len(named)} runs: {', '.join(r.run_id for r in named)}"
        )
    known = ", ".join(sorted(anchors)) or "none"
    raise StoreError(
        f"'{ref}' is no file, no anchor ({known}), no commit known here and none of the {len(runs)} runs in"
        f" {store.directory}{'' if store.directory.is_dir() else ', which does not exist'}"
    )


def is_named(run: RunEntry, ref: str) -> bool:
    """Tell whether ``ref`` is the run's id, the beginning of it, or its file's name."""
    return ref in (run.file, run.file.removesuffix(".json")) or (
        len(ref) >= SHORTEST_ID and run.run_id.startswith(ref)
    )


def load_named(store: Store, ref: str, directory: Path) -> RunRecord:
    """Return the whole run that ``ref`` names: of a commit the last one with a good series, else the last.

    Raises:
        StoreError: it names nothing, or cannot be read.
    """
    where = search_for(store, ref, directory=directory, suite=Suite())
    ordered = [run for run, note in where.lineage.ordered(where.runs) if note is None]
    if not ordered:
        raise StoreError(f"nothing was measured at {ref}")
    chosen = next((run for run in ordered if run.good_keys()), ordered[0])
    return where.load(store, chosen)
