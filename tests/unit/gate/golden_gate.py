# SPDX-License-Identifier: Apache-2.0
"""A gate on golden engines, for the tests; run as a program it can be killed like any other."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vllm_perf.engine.engine import Engine
from vllm_perf.engine.gpu import GpuSet
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.judge import Judge
from vllm_perf.gate.lab import EngineLab
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Outcome, Runner
from vllm_perf.golden import GoldenServer, Noise, Profile
from vllm_perf.history.environment import Hardware
from vllm_perf.history.git import Suite
from vllm_perf.lab.machine import Machine
from vllm_perf.lab.measure import Bench
from vllm_perf.metrics import validity_client
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import SideName

CHAT = WorkloadSpec.model_validate(
    {
        "name": "chat",
        "prompt": {"kind": "unique", "unique_tokens": 64},
        "arrival": {"kind": "closed", "concurrency": 8},
        "output_tokens": 4,
        "requests": 16,
        "warmup_requests": 0,
        "request_timeout_s": 20,
    }
)
BENCH = Bench(
    machine=Machine(kind="cpu", gpus=GpuSet(reason="no NVML: a test"), reason=""),
    hardware=Hardware(),
    suite=Suite(),
    progress=lambda *_: None,
)


class GoldenBoots:
    """Boot a golden engine a side, each boot with noise of its own; ``alive`` must end at 0."""

    def __init__(self, **ttft_ms: float) -> None:
        self.ttft_ms = ttft_ms
        self.booted: list[SideName] = []
        self.alive = 0
        self._numbers = itertools.count()

    @contextmanager
    def __call__(self, side: SideName) -> Iterator[Engine]:
        noise = Noise(boot=next(self._numbers), boot_sigma=0.005, request_sigma=0.02)
        profile = Profile(ttft_ms=self.ttft_ms[side], itl_ms=20.0)
        with GoldenServer(profile, noise=noise) as server:
            self.booted.append(side)
            self.alive += 1
            target = Target(base_url=server.base_url, model="golden", name=side)
            yield Engine(spec=EngineSpec(name=side, model="golden"), target=target)
            self.alive -= 1


def golden_lab(boots: GoldenBoots) -> EngineLab:
    """Return the gate's real lab over golden engines."""
    return EngineLab(boots=boots, sides={"base": {}, "head": {}}, workloads={"chat": CHAT}, bench=BENCH)


def run_gate(folder: Path, boots: GoldenBoots, limits: Limits) -> Outcome:
    """Run a whole gate."""
    lab = golden_lab(boots)
    judge = Judge(workloads=("chat",), limits=limits, policies={"chat": Policy(allowed=0.05)})
    journal = Journal.open(folder, lab.identity())
    return Runner(lab=lab, journal=journal, limits=limits, decide=judge, say=lambda _: None).run()


# Ten times as slow: no load on the machine that runs the tests makes the two change places.
SLOWER = {"base": 20.0, "head": 200.0}


def judge_on_a_busy_machine(setattr: Callable[[object, str, float], None] = setattr) -> None:
    """Let runs count in which the client sent late or read in bursts, as it does beside other people's work.

    The suite rightly refuses to judge those, and would end every gate here in no verdict.
    """
    setattr(validity_client, "LATE_SHARE_OF_TTFT", 100.0)
    setattr(validity_client, "BURST_SHARE", 1.0)


if __name__ == "__main__":
    judge_on_a_busy_machine()
    run_gate(Path(sys.argv[1]), GoldenBoots(**SLOWER), Limits(min_pairs=4, max_pairs=4))
