# SPDX-License-Identifier: Apache-2.0
"""The gate end to end, on golden engines: booted in turn, measured over HTTP, judged by the real rules."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vllm_perf.engine.engine import Engine
from vllm_perf.engine.gpu import GpuSet
from vllm_perf.engine.install import Install
from vllm_perf.gate.boot import Slot
from vllm_perf.gate.journal import Journal
from vllm_perf.gate.judge import Judge
from vllm_perf.gate.lab import EngineLab, SideSpec
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.runner import Outcome, Runner
from vllm_perf.golden import GoldenServer, Noise, Profile
from vllm_perf.history.environment import Hardware
from vllm_perf.history.git import Suite
from vllm_perf.lab.machine import Machine
from vllm_perf.lab.measure import Bench
from vllm_perf.lab.result import BOOT
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import SideName
from vllm_perf.verdict.types import Change

CHAT = WorkloadSpec.model_validate(
    {
        "name": "chat",
        "prompt": {"kind": "unique", "unique_tokens": 64},
        "arrival": {"kind": "closed", "concurrency": 8},
        "output_tokens": 4,
        "requests": 48,
        "warmup_requests": 0,
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
        profile = Profile(ttft_ms=self.ttft_ms[side], itl_ms=2.0)
        with GoldenServer(profile, noise=noise) as server:
            self.booted.append(side)
            self.alive += 1
            target = Target(base_url=server.base_url, model="golden", name=side)
            yield Engine(spec=EngineSpec(name=side, model="golden"), target=target)
            self.alive -= 1


def gate(folder: Path, boots: GoldenBoots, limits: Limits) -> Outcome:
    lab = EngineLab(boots=boots, sides={"base": {}, "head": {}}, workloads={"chat": CHAT}, bench=BENCH)
    policies = {"chat": Policy(allowed=0.05)}
    judge = Judge(workloads=("chat",), limits=limits, policies=policies)
    journal = Journal.open(folder, lab.identity())
    return Runner(lab=lab, journal=journal, limits=limits, decide=judge, say=lambda _: None).run()


def test_a_slower_head_is_flagged_confirmed_and_red(tmp_path: Path) -> None:
    boots = GoldenBoots(base=30.0, head=45.0)
    outcome = gate(tmp_path, boots, Limits(min_pairs=3, max_pairs=4))
    state = outcome.decision.workloads["chat"]
    assert outcome.decision.change is Change.REGRESSED
    assert "ttft_p50" in state.flagged
    found = {one.metric: one for one in state.comparisons}
    assert found["ttft_p50"].ratio == pytest.approx(1.5, rel=0.2)
    assert (len(boots.booted), boots.alive) == (8, 0)


def test_equal_sides_are_never_called_slower(tmp_path: Path) -> None:
    outcome = gate(tmp_path, GoldenBoots(base=30.0, head=30.0), Limits(min_pairs=3, max_pairs=3))
    assert outcome.decision.change in (Change.SAME, Change.INCONCLUSIVE)


def test_each_boot_leaves_a_cell_of_its_own_and_one_a_workload() -> None:
    boots = GoldenBoots(base=10.0, head=10.0)
    lab = EngineLab(boots=boots, sides={"base": {}, "head": {}}, workloads={"chat": CHAT}, bench=BENCH)
    cells = lab.measure(Slot(pair=0, side="base", workloads=("chat",)))
    assert [cell.workload for cell in cells] == [BOOT, "chat"]
    assert cells[1].invalid == ()


def side(**engine: object) -> SideSpec:
    spec = EngineSpec.model_validate({"name": "e", "model": "m", **engine})
    book = EngineBook(path=Path("engines.toml"), engines={}, ladders={}, models={})
    install = Install(python="python", distribution="vllm", version="0.33.0", torch="2.11")
    return SideSpec(engine=spec, book=book, install=install)


def test_a_sides_facts_hold_what_is_compared_and_no_key() -> None:
    facts = side(
        flags={"api-key": "sk-planted", "max-num-batched-tokens": 2048},
        env={"HF_TOKEN": "hf-planted", "VLLM_API_KEY": "sk-planted", "VLLM_CPU_KVCACHE_SPACE": "1"},
    ).facts()
    assert "planted" not in str(facts)
    assert facts["engine"]["flags"] == {"max-num-batched-tokens": 2048}
    assert facts["engine"]["env"] == {"VLLM_CPU_KVCACHE_SPACE": "1"}


def test_another_flag_or_another_vllm_is_another_comparison() -> None:
    plain = side().facts()
    assert side(flags={"enforce-eager": True}).facts() != plain
    assert side(python="/opt/venv/bin/python").facts() != plain
    assert side(title="only a title").facts() == plain
