# SPDX-License-Identifier: Apache-2.0
"""Alarms of the history comparison: one run against one earlier run, with the code that the suite uses.

    python benchmarks/alarm_rates.py simulated --jobs 2 --state FILE --json alarms.json --markdown alarms.md
    python benchmarks/alarm_rates.py golden --jobs 3 --store DIR --json golden.json --markdown golden.md

``simulated``: boots of ``noise_model.py``, laid out as runs with a sample a request. ``golden``: the golden
engine, booted, loaded and measured for each run as the suite does it, every run compared with the one
before; runs are kept in ``--store``, so that one that was cut goes on. Either way the runs become records,
and records are compared through ``find_baselines`` and ``compare_run``, as ``--benchmark-compare`` does, at
the suite's own ``--perf-allowed-change``.

A single boot cannot know how boots differ: until A/A pairs have taught a floor, boots are assumed to differ
by 2 %. Rows with larger real boot noise show what that assumption costs. Wanted: at most 4 alarms in 200
comparisons of an engine with itself; a 10 % slowdown of one metric found where the noise permits.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.noise_model import Machine, Noise
from benchmarks.recorded_runs import SIMULATED, measured, simulated
from vllm_perf.golden import Profile
from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.compare import Rules, compare_run
from vllm_perf.history.entry import RunEntry, entry_of
from vllm_perf.history.floors import floor_hardware
from vllm_perf.history.lineage import lineage_of_run
from vllm_perf.history.record import RunRecord
from vllm_perf.history.sides import side_of
from vllm_perf.history.store import Store
from vllm_perf.pytest_plugin.options import OPTIONS
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.comparison import aa_log_ratios
from vllm_perf.verdict.noise import NoiseBook
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Change

ALLOWED = float(next(option.default for option in OPTIONS if option.name == "allowed-change"))
# The golden engine's own noise, a GPU server's, and what comparing.md assumes.
NOISES: Mapping[str, Noise] = {
    "boots 0.2 %": Noise(boot_common=0.001, boot_own=0.001, ttft_residual=0.01, tpot_residual=0.005),
    "boots 0.5 %": Noise(boot_common=0.004, boot_own=0.003, ttft_residual=0.08),
    "boots 0.5 %, one in 20 stalled": Noise(
        boot_common=0.004, boot_own=0.003, ttft_residual=0.08, stalled_boots=0.05
    ),
    "boots 1.5 %": Noise(),
    "boots 3 %": Noise(boot_common=0.024, boot_own=0.018),
}
CASES: tuple[tuple[str, float, str], ...] = (
    ("nothing changed", 0.0, "everything"),
    ("10 % slower", 0.10, "everything"),
    ("TTFT 10 % slower", 0.10, "ttft"),
    ("TPOT 10 % slower", 0.10, "tpot"),
    ("10 % faster", -1 / 11, "everything"),
)
AA_PAIRS = 12
GOLDEN_CASES: Mapping[str, Profile] = {
    "nothing changed": Profile(ttft_ms=100, itl_ms=10),
    "10 % slower": Profile(ttft_ms=110, itl_ms=11),
    "TTFT 10 % slower": Profile(ttft_ms=110, itl_ms=10),
    "TPOT 10 % slower": Profile(ttft_ms=100, itl_ms=11),
    "10 % faster": Profile(ttft_ms=100 / 1.1, itl_ms=10 / 1.1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: of ``comparisons``, how many ended how, and which metrics were called worse."""

    source: str
    case: str
    floor: str
    comparisons: int
    regressed: int
    improved: int
    same: int
    worse: Mapping[str, int]


Verdict = tuple[Change, frozenset[str]]


def compare(base: RunRecord, head: RunRecord, floors: NoiseBook) -> Verdict:
    """Return the verdict on a run, and the gating metrics whose tests fail."""
    past = lineage_of_run(base.run_id, base.run_id)
    found = find_baselines([entry_of(base, "base.json")], head, lineage=past, policy=HistorySpec())
    rules = Rules(policy=Policy(allowed=ALLOWED), floors=floors)
    comparison = compare_run(head, found, lambda _: base, rules)
    assert comparison.change is not None
    return comparison.change, frozenset(one.comparison.metric for one in comparison.regressed)


def taught(record: RunRecord, ratios: Mapping[str, Sequence[float]]) -> NoiseBook:
    """Return the floors of the record's machine and workload as A/A pairs teach them."""
    where = floor_hardware(record.cells[0].environment, HistorySpec().identity)
    return NoiseBook().learn(where, record.cells[0].workload, ratios)


def counted(source: str, case: str, floor: str, verdicts: Sequence[Verdict]) -> Row:
    """Return the line of one case."""
    changes = Counter(change for change, _ in verdicts)
    return Row(
        source=source,
        case=case,
        floor=floor,
        comparisons=len(verdicts),
        regressed=changes[Change.REGRESSED],
        improved=changes[Change.IMPROVED],
        same=changes[Change.SAME],
        worse=dict(sorted(Counter(name for _, names in verdicts for name in names).items())),
    )


# --- simulated ------------------------------------------------------------------------------------------


def draw(noise: Noise, slowdown: float, shape: str, seed: int) -> tuple[Verdict, Verdict]:
    """Compare one base with one head of one machine, without and with a learnt floor."""
    rng = np.random.default_rng([seed, int(1000 * abs(slowdown)), len(shape)])
    machine = Machine(replace(noise, requests=SIMULATED.requests), rng)
    base, head = (simulated(machine.boot(*how), at) for at, how in enumerate(((), (slowdown, shape))))
    learnt = taught(base, aa_log_ratios([machine.boot() for _ in range(2 * AA_PAIRS)]))
    return compare(base, head, NoiseBook()), compare(base, head, learnt)


def simulated_rows(comparisons: int, jobs: int, kept: "Kept") -> Iterator[Row]:
    """Simulate every case under every noise; what was finished by a run that was cut is taken over."""
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for label, noise in NOISES.items():
            for case, slowdown, shape in CASES:
                done = kept.rows(label, case, comparisons)
                if not done:
                    what = map(repeat, (noise, slowdown, shape))
                    drawn = list(pool.map(draw, *what, range(comparisons), chunksize=10))
                    floors = zip(("assumed", "learnt"), zip(*drawn, strict=True), strict=True)
                    done = [counted(label, case, floor, verdicts) for floor, verdicts in floors]
                    kept.add(done)
                yield from done


@dataclass(frozen=True, slots=True)
class Kept:
    """Finished rows in a file of JSON lines; without a file nothing is kept."""

    path: Path | None

    def rows(self, source: str, case: str, comparisons: int) -> list[Row]:
        """Return a finished case's rows."""
        if self.path is None or not self.path.exists():
            return []
        rows = [Row(**json.loads(line)) for line in self.path.read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if (row.source, row.case, row.comparisons) == (source, case, comparisons)]

    def add(self, rows: Sequence[Row]) -> None:
        """Keep a finished case's rows."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(asdict(row)) + "\n" for row in rows))


# --- golden ---------------------------------------------------------------------------------------------


PER_CASE = 10_000  # run numbers of one case


def measure_missing(store: Store, comparisons: int, changed: int, jobs: int) -> None:
    """Measure golden runs until the store holds enough that are worth a verdict."""
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        for at, profile in enumerate(GOLDEN_CASES.values()):
            needed = changed if at else comparisons + 1 + 2 * AA_PAIRS
            while (more := needed - len(golden_runs(store, at))) > 0:
                first = PER_CASE * at + sum(_case(run) == at for run in store.contents().runs)
                for record in pool.map(measured, repeat(profile), range(first, first + more)):
                    store.save(record)


def golden_runs(store: Store, case: int) -> list[RunEntry]:
    """Return a case's runs that are worth a verdict, oldest first."""
    runs = [run for run in store.contents().runs if _case(run) == case and run.good_keys()]
    return sorted(runs, key=lambda run: run.run_id)


def golden_rows(store: Store, comparisons: int, changed: int) -> Iterator[Row]:
    """Compare every run of the unchanged engine with the one before, changed ones with one of these each.

    The first 24 runs only teach the floor.
    """
    cases = [[store.load(run.file) for run in golden_runs(store, at)] for at in range(len(GOLDEN_CASES))]
    teachers, unchanged = cases[0][: 2 * AA_PAIRS], cases[0][2 * AA_PAIRS :]
    ratios = aa_log_ratios([side_of(record, "engine", "chat") for record in teachers])
    for floor, book in (("assumed", NoiseBook()), ("learnt", taught(teachers[0], ratios))):
        for case, heads in zip(GOLDEN_CASES, cases, strict=True):
            still = heads is cases[0]
            pairs = pairwise(unchanged[: comparisons + 1]) if still else zip(unchanged, heads[:changed])  # noqa: B905  as many as changed
            yield counted("golden engine", case, floor, [compare(base, head, book) for base, head in pairs])


def _case(run: RunEntry) -> int:
    return int(run.run_id.removeprefix("run")) // PER_CASE


def markdown(rows: Sequence[Row]) -> str:
    """Return the table."""
    lines = ["| boots | case | floor | comparisons | regressed | improved | same | called worse |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in rows:
        worse = ", ".join(f"{name} {count}" for name, count in row.worse.items()) or "none"
        lines.append(
            f"| {row.source} | {row.case} | {row.floor} | {row.comparisons} | {row.regressed} |"
            f" {row.improved} | {row.same} | {worse} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", choices=("simulated", "golden"))
    parser.add_argument(
        "--comparisons", type=int, default=200, help="of each simulated case; golden: unchanged"
    )
    parser.add_argument("--changed", type=int, default=40, help="golden comparisons of each changed engine")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--state", type=Path, help="simulated: keep finished cases there, and go on from them"
    )
    parser.add_argument("--store", type=Path, help="golden: where the measured runs are kept")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.source == "golden":
        if options.store is None:
            parser.error("golden needs --store DIR")
        store = Store(options.store)
        measure_missing(store, options.comparisons, options.changed, options.jobs)
        rows = list(golden_rows(store, options.comparisons, options.changed))
    else:
        rows = list(simulated_rows(options.comparisons, options.jobs, Kept(options.state)))
    text = markdown(rows)
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    if options.json:
        data = {"allowed": ALLOWED, "aa_pairs": AA_PAIRS, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
