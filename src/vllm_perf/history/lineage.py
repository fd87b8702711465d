# SPDX-License-Identifier: Apache-2.0
"""Which stored runs belong to the past of what is being measured, nearest first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vllm_perf.history.entry import RunEntry
from vllm_perf.history.git import Git, Suite

GUESSES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A set of runs to look through before the next; ``note`` is told to who is compared with one of them.

    ``ranks`` is by commit, nearest first; ``None`` lets every run in, newest first.
    """

    ranks: dict[str, int] | None
    note: str | None = None
    run_ids: frozenset[str] | None = None

    def runs(self, runs: Iterable[RunEntry]) -> list[RunEntry]:
        """Return the runs of this tier, the best first."""
        mine = [run for run in runs if self.run_ids is None or run.run_id in self.run_ids]
        newest = sorted(mine, key=lambda run: (run.created, run.file), reverse=True)
        if self.ranks is None:
            return newest
        ranks = self.ranks
        return sorted((run for run in newest if run.commit in ranks), key=lambda run: ranks[run.commit or ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The tiers in order of preference; ``past`` names them in a sentence, ``hint`` says what to do."""

    tiers: tuple[Tier, ...]
    past: str
    hint: str = field(default="name one with --perf-baseline")

    def ordered(self, runs: Sequence[RunEntry]) -> list[tuple[RunEntry, str | None]]:
        """Return the runs a baseline may come from, the best first, each with its tier's note."""
        seen: set[str] = set()
        found = []
        for tier in self.tiers:
            for run in tier.runs(runs):
                if run.file not in seen:
                    seen.add(run.file)
                    found.append((run, tier.note))
        return found

    def why_not(self, nearest: RunEntry, count: int) -> str:
        """Say that good runs are stored, but none of them in this past."""
        return (
            f"{count} good runs are stored, none on {self.past} (the newest is {nearest.short}); {self.hint}"
        )


def lineage_of(directory: Path, suite: Suite, mainline: str = "") -> Lineage:
    """Return the default past of ``suite``: the merge base with the main line, and what came before it.

    Where nothing fits there, runs of the branch itself are looked through, and said to be. Outside git the
    past is everything stored, newest first.
    """
    if suite.commit is None:
        note = f"chosen by time alone ({suite.note or 'no commit'})"
        return Lineage(tiers=(Tier(ranks=None, note=note),), past="any commit")
    git = Git(directory)
    base, name = _merge_base(git, suite.commit, mainline)
    tiers = [Tier(ranks=_ranks(git, base))]
    if base != suite.commit:
        note = f"measured on this branch itself: nothing that fits was measured on {name} before it"
        tiers.append(Tier(ranks=_ranks(git, suite.commit), note=note))
    past = f"the past of {base[:9]}" + (f" (merge base with {name})" if base != suite.commit else "")
    return Lineage(tiers=tuple(tiers), past=past, hint=_hint(git))


def lineage_of_commit(directory: Path, commit: str, ref: str) -> Lineage:
    """Return the past that a named ref asks for: its own commit, else what came before it."""
    git = Git(directory)
    note = f"nothing that fits was measured at {ref} ({commit[:9]}) itself: the nearest commit before it"
    tiers = (Tier(ranks={commit: 0}), Tier(ranks=_ranks(git, commit), note=note))
    return Lineage(tiers=tiers, past=f"the past of {ref} ({commit[:9]})", hint=_hint(git))


def lineage_of_run(run_id: str, name: str) -> Lineage:
    """Return the past that holds one run alone."""
    return Lineage(tiers=(Tier(ranks=None, run_ids=frozenset({run_id})),), past=name)


def _merge_base(git: Git, commit: str, mainline: str) -> tuple[str, str]:
    for ref in (mainline,) if mainline else GUESSES:
        if git.resolve(ref) is not None:
            base = git.ask("merge-base", ref, commit)
            if base is not None:
                return base, ref
    return commit, mainline or "the main line"


def _ranks(git: Git, commit: str) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(git.ancestors(commit) or (commit,))}


def _hint(git: Git) -> str:
    if git.is_shallow():
        return (
            "this clone is shallow, so older commits are not known: `git fetch --unshallow`, "
            "or name a baseline with --perf-baseline"
        )
    return "name one with --perf-baseline"
