# SPDX-License-Identifier: Apache-2.0
"""The text under a changed series: numbers, which stage moved, what differs, commits, how to see it again."""

import shlex
from collections.abc import Iterator, Sequence

from vllm_perf.history.compare import Compared
from vllm_perf.history.git import Suite
from vllm_perf.history.record import BOOT, RunRecord, SeriesKey

# Options of the perf suite that choose a server, and whether a value follows.
CHOOSING = {
    "--perf-golden": False,
    "--perf-base-url": True,
    "--perf-model": True,
    "--perf-api-key-env": True,
    "--perf-ladder": True,
    "--perf-history": True,
}


def explain(one: Compared, base: RunRecord, head: RunRecord, again: Sequence[str] = ()) -> str:
    """Return the paragraph of one comparison, most telling line first.

    ``again`` is the command that measures it again; without it, it is made from the head's own.
    """
    baseline = one.baseline
    lines = [
        f"{one.key} {one.comparison.change}: {one.comparison.reason}",
        f"  what moved: {one.attribution.sentence()}",
        f"  what differs: {'; '.join(baseline.differences) or 'nothing that is recorded'}",
        f"  baseline: run {baseline.run.short}",
        f"  commits: {commits(base.suite, head.suite)}",
        f"  again: {shlex.join(again or command(one.key, baseline.run.run_id, head.command))}",
    ]
    return "\n".join([*lines, *(f"  note: {note}" for note in baseline.notes)])


def commits(base: Suite, head: Suite) -> str:
    """Return the suite's commits from one run to the other; uncommitted changes are said to be there."""
    before, after = _commit(base), _commit(head)
    if before == after:
        return f"both at {after}"
    if base.commit and head.commit:
        return f"{before}..{after} (git log --oneline {base.commit[:9]}..{head.commit[:9]})"
    return f"{before} to {after}"


def command(key: SeriesKey, run_id: str, measured_by: str = "") -> list[str]:
    """Return the command that measures the one cell again and compares it with the same baseline.

    ``measured_by`` is the command of the run itself, of which the choice of server is taken over.
    """
    chosen = list(_choice(shlex.split(measured_by)))
    words = ["pytest", "tests/perf", "--benchmark-compare", *chosen]
    words += [] if "--perf-base-url" in chosen else ["--perf-engine", key.engine]
    words += [] if key.workload == BOOT else ["--perf-workload", key.workload]
    return [*words, "--perf-baseline", run_id]


def _choice(words: Sequence[str]) -> Iterator[str]:
    """Yield the options that choose what is measured and where it is kept, as separate words."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in CHOOSING:
            continue
        yield name
        if CHOOSING[name]:
            yield from [value] if equals else words[at + 1 : at + 2]


def _commit(suite: Suite) -> str:
    if suite.commit is None:
        return "no commit"
    return suite.commit[:9] + (" with uncommitted changes" if suite.dirty else "")
