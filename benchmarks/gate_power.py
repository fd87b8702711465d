# SPDX-License-Identifier: Apache-2.0
"""How often the gate cries wolf, and how often it sees one: simulated boots through the real verdict code.

    python benchmarks/gate_power.py --jobs 2 --state gates.jsonl --json power.json --markdown power.md

Boots come from ``noise_model.py`` (variance between boots, between requests, autocorrelation, drift);
everything after that is the code that a real gate runs: ``aa_log_ratios``, ``NoiseFloor``, ``decide_gate``.
All ways of deciding see the same boots. What is simulated is the noise, not the engine: the table says what
the rule does under such noise, and it is as good as the noise model.

Ways of deciding:

gate, 5 pairs         five pairs A B B A …, and a sixth only where something was flagged
gate, 3 to 8 pairs    looked at after every pair, and one more to confirm
… learnt              with a noise floor from 12 A/A pairs of the same machine, drawn anew for every gate
one against one       first base boot against first head boot, any of the four medians worse by 5 %: what
                      ``--benchmark-compare-fail=median:5%`` does
pooled Mann-Whitney   all requests of five boots a side in one test a time (TTFT, TPOT), p < 0.01, worse

``--state`` keeps every finished block of gates: a run that was cut goes on where it stopped.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import mannwhitneyu

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.noise_model import GATING, Machine, Noise
from vllm_perf.verdict.comparison import aa_log_ratios
from vllm_perf.verdict.noise import NoiseFloor
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import GatePlan, Next, Pair, decide_gate, order_of_pair
from vllm_perf.verdict.side import Side
from vllm_perf.verdict.types import Change

# 1.5 % between boots is what comparing.md simulated; the quiet machine is a GPU server with fixed clocks.
NOISES: Mapping[str, Noise] = {
    "boots 1.5 %": Noise(),
    "boots 1.5 %, drifting": Noise(drift_per_boot=0.003, walk_per_boot=0.003),
    "boots 0.5 %": Noise(boot_common=0.004, boot_own=0.003, ttft_residual=0.08),
    # Far noisier than anything allowed: here only the share of alpha that a look may spend holds the gate.
    "boots 4 %": Noise(boot_common=0.032, boot_own=0.024),
}
SCENARIOS: tuple[tuple[float, str], ...] = (
    (0.0, "everything"),
    *((slowdown, shape) for shape in ("everything", "ttft", "tpot") for slowdown in (0.02, 0.05, 0.10)),
)
AA_PAIRS = 12
FIVE, UP_TO_EIGHT = GatePlan(min_pairs=5, max_pairs=5), GatePlan(min_pairs=3, max_pairs=8)
MINUTES_PER_BOOT = 1.5
BLOCK = 20  # gates that are kept together: about a second's work


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one way of deciding said about one pair of engines, and how many boots it took."""

    way: str
    change: str
    boots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: shares of all gates, and mean boots."""

    noise: str
    slowdown: float
    shape: str
    way: str
    gates: int
    regressed: float
    improved: float
    same: float
    boots: float

    @property
    def minutes(self) -> float:
        """Return how long that takes."""
        return self.boots * MINUTES_PER_BOOT


def one_gate(noise: Noise, slowdown: float, shape: str, allowed: float, seed: int) -> list[Outcome]:
    """Draw one machine and let every way of deciding see its boots."""
    rng = np.random.default_rng([seed, int(1000 * slowdown), sum(map(ord, shape))])
    learnt = {
        metric: NoiseFloor(log_ratios=tuple(values))
        for metric, values in aa_log_ratios(_boots(Machine(noise, rng), 2 * AA_PAIRS)).items()
    }
    machine = Machine(noise, rng)
    pairs = [_pair(machine, index, slowdown, shape) for index in range(UP_TO_EIGHT.max_pairs + 1)]
    plain, taught = Policy(allowed=allowed), Policy(allowed=allowed, floors=learnt)
    return [
        _gate("gate, 5 pairs", pairs, FIVE, plain),
        _gate("gate, 5 pairs, learnt", pairs, FIVE, taught),
        _gate("gate, 3 to 8 pairs", pairs, UP_TO_EIGHT, plain),
        _gate("gate, 3 to 8 pairs, learnt", pairs, UP_TO_EIGHT, taught),
        _one_against_one(pairs[0]),
        _pooled(pairs[:5]),
    ]


def _boots(machine: Machine, count: int) -> list[Side]:
    return [machine.boot() for _ in range(count)]


def _pair(machine: Machine, index: int, slowdown: float, shape: str) -> Pair:
    booted = {name: machine.boot(slowdown if name == "head" else 0.0, shape) for name in order_of_pair(index)}
    return booted["base"], booted["head"]


def _gate(way: str, pairs: list[Pair], plan: GatePlan, policy: Policy) -> Outcome:
    """Run the gate as its runner does: a pair, a decision, until it says stop."""
    for count in range(plan.min_pairs, len(pairs) + 1):
        decision = decide_gate(pairs[:count], plan, policy)
        if decision.next is Next.STOP:
            return Outcome(way=way, change=str(decision.change), boots=2 * count)
    raise AssertionError("a gate that never stops")


def _one_against_one(pair: Pair) -> Outcome:
    base, head = (side.values for side in pair)
    worse = any(
        head[metric] > 1.05 * base[metric]
        if metric != "output_throughput"
        else base[metric] > 1.05 * head[metric]
        for metric in GATING
    )
    return Outcome(way="one against one, 5 %", change=str(_called(worse)), boots=2)


def _pooled(pairs: list[Pair]) -> Outcome:
    worse = False
    for time in ("ttft", "tpot"):
        base, head = (
            [value for pair in pairs for value in pair[side].by_prompt[time].values()] for side in (0, 1)
        )
        worse = worse or bool(mannwhitneyu(head, base, alternative="greater").pvalue < 0.01)
    return Outcome(way="pooled Mann-Whitney", change=str(_called(worse)), boots=2 * len(pairs))


def _called(worse: bool) -> Change:
    return Change.REGRESSED if worse else Change.SAME


class Block(NamedTuple):
    """Some gates of one case: noise, slowdown, what it touches, the seeds from ``first`` to ``end`` - 1."""

    noise: str
    slowdown: float
    shape: str
    first: int
    end: int


def blocks(gates: int, still: int) -> list[Block]:
    """Return all that is to be simulated."""
    counts = {slowdown: gates if slowdown else still for slowdown, _ in SCENARIOS}
    return [
        Block(noise, slowdown, shape, first, min(first + BLOCK, counts[slowdown]))
        for noise in NOISES
        for slowdown, shape in SCENARIOS
        for first in range(0, counts[slowdown], BLOCK)
    ]


Drawn = list[list[Outcome]]


def simulate(block: Block, allowed: float) -> Drawn:
    """Return the outcomes of every gate of a block."""
    return [
        one_gate(NOISES[block.noise], block.slowdown, block.shape, allowed, seed)
        for seed in range(block.first, block.end)
    ]


class State:
    """Finished blocks, kept in a file of JSON lines; the first line says what they were simulated with."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        """Read what is there.

        Raises:
            SystemExit: the file is about something else.
        """
        self._path, self.done = path, dict[Block, Drawn]()
        if path is None or not path.exists():
            self._write({"settings": settings})
            return
        whole = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if "\n" in line]
        if json.loads(whole[0])["settings"] != settings:
            raise SystemExit(f"{path}: simulated with other settings; name another file or delete it")
        for entry in map(json.loads, whole[1:]):
            drawn = [[Outcome(**one) for one in gate] for gate in entry["gates"]]
            self.done[Block(*entry["block"])] = drawn
        path.write_text("".join(whole), encoding="utf-8")  # without a line that a kill cut

    def add(self, block: Block, drawn: Drawn) -> None:
        """Keep a finished block."""
        self.done[block] = drawn
        self._write({"block": block, "gates": [[asdict(one) for one in gate] for gate in drawn]})

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


def rows(wanted: Sequence[Block], state: State, jobs: int, allowed: float) -> Iterator[Row]:
    """Simulate what is not in ``state`` yet and count every case."""
    missing = [block for block in wanted if block not in state.done]
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        running = {pool.submit(simulate, block, allowed): block for block in missing}
        for future in as_completed(running):
            state.add(running[future], future.result())
    for noise, slowdown, shape in dict.fromkeys(block[:3] for block in wanted):
        same = [block for block in wanted if block[:3] == (noise, slowdown, shape)]
        yield from _table(noise, slowdown, shape, [gate for block in same for gate in state.done[block]])


def _table(noise: str, slowdown: float, shape: str, drawn: Drawn) -> Iterator[Row]:
    for outcomes in zip(*drawn, strict=True):
        changes = [outcome.change for outcome in outcomes]
        yield Row(
            noise=noise,
            slowdown=slowdown,
            shape=shape,
            way=outcomes[0].way,
            gates=len(outcomes),
            regressed=changes.count(Change.REGRESSED) / len(changes),
            improved=changes.count(Change.IMPROVED) / len(changes),
            same=changes.count(Change.SAME) / len(changes),
            boots=float(np.mean([outcome.boots for outcome in outcomes])),
        )


def markdown(table: Sequence[Row]) -> str:
    """Return one table a noise: a line a way, a column a slowdown."""
    text: list[str] = []
    for noise in dict.fromkeys(row.noise for row in table):
        mine = [row for row in table if row.noise == noise]
        columns = list(dict.fromkeys((row.slowdown, row.shape) for row in mine))
        heads = [f"{slowdown:.0%} {shape}" if slowdown else "nothing changed" for slowdown, shape in columns]
        text += [
            f"### {noise} ({mine[0].gates} gates where nothing changed, {mine[-1].gates} a slowdown)",
            "",
        ]
        head = f"| called regressed | {' | '.join(heads)} | same, nothing changed | boots (minutes),"
        text += [f"{head} nothing changed / 10 % |", "|---" * (len(columns) + 3) + "|"]
        for way in dict.fromkeys(row.way for row in mine):
            by_case = {(row.slowdown, row.shape): row for row in mine if row.way == way}
            cells = " | ".join(f"{by_case[column].regressed:.1%}" for column in columns)
            still, slow = by_case[0.0, "everything"], by_case[0.1, "everything"]
            cost = f"{still.boots:.1f} ({still.minutes:.0f}) / {slow.boots:.1f} ({slow.minutes:.0f})"
            text.append(f"| {way} | {cells} | {still.same:.0%} | {cost} |")
        text.append("")
    return "\n".join(text)


def main() -> None:
    """Run the simulation and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gates", type=int, default=300, help="simulated gates a slowdown")
    parser.add_argument("--still", type=int, default=1000, help="simulated gates where nothing changed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--allowed", type=float, default=Policy().allowed)
    parser.add_argument("--state", type=Path, help="keep finished gates there, and go on from them")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = {
        "allowed": options.allowed,
        "alpha": Policy().alpha,
        "aa_pairs": AA_PAIRS,
        "minutes_per_boot": MINUTES_PER_BOOT,
        "noises": {name: asdict(noise) for name, noise in NOISES.items()},
    }
    state = State(options.state, settings)
    table = list(rows(blocks(options.gates, options.still), state, options.jobs, options.allowed))
    text = markdown(table)
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    if options.json:
        data = {"settings": settings, "rows": [asdict(row) | {"minutes": row.minutes} for row in table]}
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
