# SPDX-License-Identifier: Apache-2.0
"""Choose which stored runs may go, so that no series loses a baseline it could still be compared with."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vllm_perf.history.entry import RunEntry
from vllm_perf.history.environment import identity_key
from vllm_perf.history.parts import PartKeys
from vllm_perf.history.record import SeriesKey
from vllm_perf.spec.history import HistorySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePlan:
    """What stays and what goes, oldest first; nothing is deleted by making one."""

    keep: tuple[RunEntry, ...]
    drop: tuple[RunEntry, ...]


def plan_pruning(
    runs: Sequence[RunEntry],
    policy: HistorySpec,
    *,
    anchored: Collection[str] = (),
    mainline: Collection[str] = (),
) -> PrunePlan:
    """Keep the last ``keep_good`` good runs of every series and the runs since; drop the rest.

    They are counted apart for each identity (another GPU's only baseline stays), for the commits of the
    main line (many runs of branches do not push it out), and for clean and dirty trees. Runs named in
    ``anchored`` (files) stay for ever. ``runs`` are oldest first.
    """
    identities: dict[PartKeys, str] = {}
    seen: Counter[tuple[str, SeriesKey, bool, bool]] = Counter()
    kept: set[str] = set()
    for age, run in enumerate(reversed(runs)):
        wanted = age < policy.keep_good or run.file in anchored
        for key in run.good_keys():
            parts = run.cells[key.engine, key.workload]
            if parts not in identities:
                identities[parts] = identity_key(run.environment_of(key), policy.identity)
            name = (identities[parts], key, run.commit in mainline, bool(run.dirty))
            seen[name] += 1
            wanted = wanted or seen[name] <= policy.keep_good
        if wanted:
            kept.add(run.file)
    return PrunePlan(
        keep=tuple(run for run in runs if run.file in kept),
        drop=tuple(run for run in runs if run.file not in kept),
    )
