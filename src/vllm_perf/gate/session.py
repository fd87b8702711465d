# SPDX-License-Identifier: Apache-2.0
"""One whole gate, put together: boots, lab, floors, journal, judge and runner in, a summary out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vllm_perf.engine.boot import BootSettings
from vllm_perf.gate.floors import Floors, boots_of_one_engine
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.judge import Judge
from vllm_perf.gate.lab import EngineLab, SideSpec, VllmBoots
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Outcome, Runner
from vllm_perf.gate.summary import Summary
from vllm_perf.history.collect import probe_hardware
from vllm_perf.history.compare import ARGUMENTS_MAY_CHANGE
from vllm_perf.history.git import describe_suite
from vllm_perf.lab.machine import Machine
from vllm_perf.lab.measure import Bench
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import SideName


class Reporter(Protocol):
    """Where a gate says what it is doing."""

    def booting(self, engine: str, step: str, elapsed_s: float) -> None:
        """Take a boot's step."""

    def loading(self, engine: str, workload: str, repetition: int, done: int, total: int) -> None:
        """Take a load's progress."""

    def say(self, text: str) -> None:
        """Take a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What is to be compared with what, under which loads, how long, and where its files are.

    ``allowed`` is the change nobody minds, as a share; ``root`` is the checkout whose harness measures.
    """

    sides: Mapping[SideName, SideSpec]
    workloads: Mapping[str, WorkloadSpec]
    machine: Machine
    limits: Limits
    allowed: float
    root: Path
    journal: Path
    history: Path
    log_dir: Path
    model_cache: Path
    lock_wait_s: float = 3600.0
    download: bool = False

    @property
    def same_engine(self) -> bool:
        """Tell whether the gate compares an engine with itself."""
        return self.sides["base"].facts() == self.sides["head"].facts()

    def policy(self, floors: Floors, workload: str) -> Policy:
        """Return how one workload is judged.

        Raises:
            StoreError: the floors' file is damaged.
        """
        # Where the sides are configured differently, hitting the cache more or less is what is under test.
        base, head = self.sides["base"].engine, self.sides["head"].engine
        configured = (base.model, base.flags, base.env) != (head.model, head.flags, head.env)
        return Policy(
            allowed=self.allowed,
            floors=floors.read(workload),
            expected_differences=ARGUMENTS_MAY_CHANGE if configured else frozenset(),
        )


def run_gate(request: GateRequest, show: Reporter, command: str) -> Summary:
    """Run the gate to its verdict; ``command`` is what shows it again.

    Raises:
        LabError: a side cannot be booted or measured.
        StoreError: the floors' file is damaged.
    """
    bench = Bench(
        machine=request.machine,
        hardware=probe_hardware(),
        suite=describe_suite(request.root),
        progress=show.loading,
    )
    floors = Floors(folder=request.history, hardware=bench.hardware)
    policies = {name: request.policy(floors, name) for name in request.workloads}
    boots = _boots(request, bench, show)
    lab = EngineLab(
        boots=boots,
        sides={name: side.facts() for name, side in request.sides.items()},
        workloads=request.workloads,
        bench=bench,
    )
    try:
        outcome = _measure(lab, request, policies, show)
    finally:
        boots.close()
    for name in request.workloads:
        floors.learn(name, boots_of_one_engine(outcome.pairs, name, same_engine=request.same_engine))
    words = {name: f"{side.engine.name}, vLLM {side.install.version}" for name, side in request.sides.items()}
    return Summary(outcome=outcome, base=words["base"], head=words["head"], command=command)


def _boots(request: GateRequest, bench: Bench, show: Reporter) -> VllmBoots:
    return VllmBoots(
        sides=request.sides,
        bench=bench,
        settings=BootSettings(
            model_cache=request.model_cache, log_dir=request.log_dir, download=request.download
        ),
        progress=show.booting,
        say=show.say,
        lock_wait_s=request.lock_wait_s,
    )


def _measure(lab: EngineLab, request: GateRequest, policies: Mapping[str, Policy], show: Reporter) -> Outcome:
    journal = Journal.open(request.journal, lab.identity())
    judge = Judge(workloads=tuple(request.workloads), limits=request.limits, policies=policies)
    return Runner(lab=lab, journal=journal, limits=request.limits, decide=judge, say=show.say).run()
