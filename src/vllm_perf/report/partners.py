# SPDX-License-Identifier: Apache-2.0
"""Series without a partner, a line for each cell and reason rather than one for each of its fifty metrics."""

from collections import defaultdict
from collections.abc import Iterable

from vllm_perf.history.compare import RunComparison
from vllm_perf.history.record import RunRecord, SeriesKey

MOST_NAMED = 4


def partner_lines(record: RunRecord, comparison: RunComparison) -> tuple[str, ...]:
    """Return what is on one side only: in this run, then in the baselines."""
    groups: dict[tuple[str, str, str], list[SeriesKey]] = defaultdict(list)
    for key, reason in comparison.missing.items():
        groups[key.engine, key.workload, reason].append(key)
    for key in comparison.vanished:
        whole = (key.engine, key.workload) not in record.by_cell
        reason = "was measured for the baseline and is not in this run"
        groups[key.engine, key.workload, f"{reason} at all" if whole else reason].append(key)
    return tuple(
        f"{engine} under {workload}, {_metrics(keys)}: {reason}"
        for (engine, workload, reason), keys in groups.items()
    )


def _metrics(keys: Iterable[SeriesKey]) -> str:
    names = [key.metric for key in keys]
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more metrics"
