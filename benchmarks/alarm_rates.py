# SPDX-License-Identifier: Apache-2.0
"""Alarms of the history comparison: one run against one stored run, 200 times, with the real verdict code.

    python benchmarks/alarm_rates.py --comparisons 200

Every comparison is one boot a side, made into whole ``Run`` objects (a sample a request, with its chunks)
and taken through ``measure_all``, ``side_from_runs`` and ``compare_sides``, as ``--benchmark-compare`` does.
A single boot cannot know how boots differ: until A/A pairs have taught a floor, boots are assumed to differ
by 2 %. Rows with larger real boot noise show what that assumption costs. Wanted: at most 4 alarms in 200
comparisons of an engine with itself; a 10 % slowdown of one metric found where the noise permits.
"""

import argparse
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.noise_model import CONCURRENCY, OUTPUT_TOKENS, Machine, Noise
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec
from vllm_perf.verdict.comparison import aa_log_ratios, compare_sides
from vllm_perf.verdict.noise import NoiseFloor
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import Side, side_from_runs
from vllm_perf.verdict.types import Change

MS = 1_000_000
WORKLOAD = WorkloadSpec(
    name="simulated",
    prompt=PromptSpec(kind="unique", unique_tokens=512),
    arrival=ArrivalSpec(kind="closed", concurrency=CONCURRENCY),
    output_tokens=OUTPUT_TOKENS,
    requests=100,
)
# The golden engine's own noise, a GPU server's, and what comparing.md assumes.
NOISES: Mapping[str, Noise] = {
    "golden engine, 0.2 %": Noise(boot_common=0.001, boot_own=0.001, ttft_residual=0.01, tpot_residual=0.005),
    "boots 0.5 %": Noise(boot_common=0.004, boot_own=0.003, ttft_residual=0.08),
    "boots 1.5 %": Noise(),
    "boots 3 %": Noise(boot_common=0.024, boot_own=0.018),
}
CASES: tuple[tuple[str, float, str], ...] = (
    ("nothing changed", 0.0, "everything"),
    ("10 % everywhere", 0.10, "everything"),
    ("10 % TTFT only", 0.10, "ttft"),
    ("10 % TPOT only", 0.10, "tpot"),
    ("10 % faster", -1 / 11, "everything"),
)
AA_PAIRS = 8


def run_of(side: Side) -> Run:
    """Lay a boot's request times out as a closed loop would: each slot sends when its last answer ended."""
    free_ns = [0] * CONCURRENCY
    samples: list[RequestSample] = []
    tpot = side.by_prompt["tpot"]
    for name, ttft_ms in side.by_prompt["ttft"].items():
        slot = int(np.argmin(free_ns))
        samples.append(_request(name, free_ns[slot], ttft_ms, tpot[name]))
        free_ns[slot] = samples[-1].end_ns or 0
    return Run(
        workload=WORKLOAD.name,
        target="simulated",
        samples=tuple(samples),
        started_ns=0,
        ended_ns=max(free_ns),
        peak_in_flight=CONCURRENCY,
        asked_concurrency=CONCURRENCY,
        pinned_output_tokens=OUTPUT_TOKENS,
    )


def _request(name: str, sent_ns: int, ttft_ms: float, tpot_ms: float) -> RequestSample:
    first = sent_ns + int(ttft_ms * MS)
    chunks = array("q", (first + int(index * tpot_ms * MS) for index in range(OUTPUT_TOKENS)))
    return RequestSample(
        id=name,
        prompt_id=name,
        scheduled_ns=sent_ns,
        sent_ns=sent_ns,
        first_token_ns=chunks[0],
        first_answer_ns=chunks[0],
        last_token_ns=chunks[-1],
        end_ns=chunks[-1],
        chunk_ns=chunks,
        prompt_tokens=512,
        output_tokens=OUTPUT_TOKENS,
        token_source="usage",
        finish_reason="length",
    )


def boot(machine: Machine, slowdown: float = 0.0, shape: str = "everything") -> Side:
    """Boot once and measure as a run is measured."""
    return side_from_runs([run_of(machine.boot(slowdown, shape))], WORKLOAD)


def compared(noise: Noise, slowdown: float, shape: str, seed: int) -> Iterator[tuple[str, Change, set[str]]]:
    """Compare one base with one head, without and with a learnt floor: verdict and metrics called worse."""
    rng = np.random.default_rng([seed, int(1000 * abs(slowdown)), len(shape)])
    quick = replace(noise, requests=WORKLOAD.requests)
    machine = Machine(quick, rng)
    base, head = boot(machine), boot(machine, slowdown, shape)
    taught = aa_log_ratios([machine.boot() for _ in range(2 * AA_PAIRS)])
    learnt = {metric: NoiseFloor(log_ratios=tuple(values)) for metric, values in taught.items()}
    for way, policy in (("assumed", Policy()), ("learnt", Policy(floors=learnt))):
        gating = [one for one in compare_sides([base], [head], policy) if one.gating]
        worse = {one.metric for one in gating if one.change is Change.REGRESSED}
        better = any(one.change is Change.IMPROVED for one in gating)
        same = all(one.change is Change.SAME for one in gating)
        verdict = Change.IMPROVED if better else Change.SAME if same else Change.INCONCLUSIVE
        yield way, Change.REGRESSED if worse else verdict, worse


def table(comparisons: int) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| boots | case | floor | alarms in {comparisons} | improved | same | called worse |"
    yield "|---|---|---|---|---|---|---|"
    for label, noise in NOISES.items():
        for case, slowdown, shape in CASES:
            drawn = [list(compared(noise, slowdown, shape, seed)) for seed in range(comparisons)]
            for way in range(2):
                changes = [one[way][1] for one in drawn]
                names = [name for one in drawn for name in one[way][2]]
                called = ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names))) or "none"
                counts = " | ".join(
                    str(changes.count(change)) for change in (Change.REGRESSED, Change.IMPROVED, Change.SAME)
                )
                yield f"| {label} | {case} | {drawn[0][way][0]} | {counts} | {called} |"


def main() -> None:
    """Run the simulation and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=200)
    options = parser.parse_args()
    for line in table(options.comparisons):
        print(line, flush=True)


if __name__ == "__main__":
    main()
