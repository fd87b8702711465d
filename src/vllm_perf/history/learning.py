# SPDX-License-Identifier: Apache-2.0
"""Learn noise floors from what is stored: runs of one and the same thing are A/A pairs."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from vllm_perf.history.entry import RunEntry
from vllm_perf.history.floors import floor_hardware, learn_floors, runs_learnt_from
from vllm_perf.history.parts import PartKeys
from vllm_perf.history.record import RunRecord
from vllm_perf.history.sides import side_of
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.comparison import aa_log_ratios

Cell = tuple[str, str]


def same_runs(runs: Sequence[RunEntry]) -> dict[tuple[Cell, PartKeys, str], list[RunEntry]]:
    """Return runs of the same cell and commit in the same environment: all three parts equal.

    Of a tree with uncommitted changes one cannot know whether two runs are the same thing: left out. So is
    everything without a commit.
    """
    groups: dict[tuple[Cell, PartKeys, str], list[RunEntry]] = defaultdict(list)
    for run in runs:
        if run.commit is None or run.dirty:
            continue
        for cell, parts in run.cells.items():
            groups[cell, parts, run.commit].append(run)
    return {name: several for name, several in groups.items() if len(several) >= 2}


def learn_from_runs(
    directory: Path,
    runs: Sequence[RunEntry],
    load: Callable[[RunEntry], RunRecord],
    policy: HistorySpec,
) -> dict[Cell, int]:
    """File the A/A pairs among ``runs`` under their hardware and workload; return how many each cell gave.

    A run that was judged regressed counts too: the same thing, measured again, cannot have regressed, and
    leaving such runs out would make the floor too low. Runs learnt from before are left out.
    """
    used = runs_learnt_from(directory)
    fresh = [run for run in runs if run.run_id not in used]
    records: dict[str, RunRecord] = {}
    counted: dict[Cell, int] = defaultdict(int)
    for (cell, _, _), several in same_runs(fresh).items():
        for run in several:
            if run.file not in records:
                records[run.file] = load(run)
        ratios = aa_log_ratios([side_of(records[run.file], *cell) for run in several])
        if ratios:
            environment = records[several[0].file].by_cell[cell].environment
            hardware = floor_hardware(environment, policy.identity)
            learn_floors(directory, hardware, cell[1], ratios, [run.run_id for run in several])
            counted[cell] += max(len(values) for values in ratios.values())
    return dict(counted)
