# SPDX-License-Identifier: Apache-2.0
"""The text under a changed series: numbers, which stage moved, what differs, commits, how to see it again."""

from vllm_perf.history.compare import Compared
from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord, SeriesKey


def explain(one: Compared, base: RunRecord, head: RunRecord) -> str:
    """Return the paragraph of one comparison, most telling line first."""
    baseline = one.baseline
    lines = [
        f"{one.key} {one.comparison.change}: {one.comparison.reason}",
        f"  what moved: {one.attribution.sentence()}",
        f"  what differs: {'; '.join(baseline.differences) or 'nothing that is recorded'}",
        f"  baseline: run {baseline.run.short}",
        f"  commits: {commits(base.suite, head.suite)}",
        f"  again: {command(one.key, baseline.run.run_id)}",
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


def command(key: SeriesKey, run_id: str) -> str:
    """Return the command that measures the one cell again and compares it with the same baseline."""
    return (
        f"pytest tests/perf --benchmark-compare --perf-engine {key.engine}"
        f" --perf-workload {key.workload} --perf-baseline {run_id}"
    )


def _commit(suite: Suite) -> str:
    if suite.commit is None:
        return "no commit"
    return suite.commit[:9] + (" with uncommitted changes" if suite.dirty else "")
