# SPDX-License-Identifier: Apache-2.0
"""Which engines, workloads and metrics are tested, in which order: pure data from options and spec files."""

import os
from dataclasses import dataclass

import pytest

from vllm_perf.channel.suite import ChannelPlan, plan_channel
from vllm_perf.lab.machine import Machine
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.budget import BudgetFile
from vllm_perf.spec.channel import find_channel
from vllm_perf.spec.engine import EngineSpec, Ladder
from vllm_perf.spec.files import EngineBook, load_budgets, load_engines, load_workloads_for, pick
from vllm_perf.spec.workload import WorkloadSpec

QUICK_WORKLOAD = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The engines in the order in which they boot, and the workloads each gets.

    ``channel``: the one engine is a channel of the channels file; the workloads are lowered to its limits.
    """

    machine: Machine
    book: EngineBook
    ladder: Ladder | None
    engines: tuple[EngineSpec, ...]
    workloads: tuple[WorkloadSpec, ...]
    budgets: tuple[BudgetFile, ...]
    channel: ChannelPlan | None = None

    @property
    def first(self) -> EngineSpec:
        """Return the rung that every gain is taken against."""
        return self.engines[0]


EXTERNAL = "external"


def make_plan(config: PerfConfig, machine: Machine) -> Plan:
    """Choose engines and workloads.

    Raises:
        pytest.UsageError: a spec file is wrong or a name is unknown; the message lists the valid ones.
    """
    try:
        return _make_plan(config, machine)
    except SpecError as error:
        raise pytest.UsageError(str(error)) from None


def _make_plan(config: PerfConfig, machine: Machine) -> Plan:
    if config.require_gpu and machine.kind != "cuda":
        raise pytest.UsageError(f"--perf-require-gpu: no NVIDIA GPU here ({machine.reason})")
    book = load_engines(config.engines_file)
    kind = "golden" if config.golden else machine.kind
    workloads = load_workloads_for(config.workloads_file, kind)
    ladder = _ladder(config, book, kind)
    chosen = tuple(
        _fit(pick(workloads, name, f"{config.workloads_file}: workload"), config)
        for name in _workload_names(config, ladder, tuple(workloads))
    )
    channel: ChannelPlan | None = None
    engines: tuple[EngineSpec, ...]
    if config.channel:
        entry = find_channel(config.channels_file, config.channel)
        channel = plan_channel(entry, chosen, os.environ, config.spend_cap)
        chosen = channel.workloads
        engines = (EngineSpec(name=entry.name, title=entry.title or entry.name, model=entry.model),)
    elif config.base_url:
        engines = (EngineSpec(name=EXTERNAL, title=EXTERNAL, model=config.model or ""),)
    else:
        assert ladder is not None
        engines = tuple(book.engine(name) for name in config.engines or _rungs(config, ladder))
    return Plan(
        machine=machine,
        book=book,
        ladder=ladder,
        engines=engines,
        workloads=chosen,
        budgets=load_budgets(config.budgets_dir),
        channel=channel,
    )


def _ladder(config: PerfConfig, book: EngineBook, kind: str) -> Ladder | None:
    """Return the ladder to climb; a server that someone else runs has none."""
    if config.channel or config.base_url:
        return None
    return pick(book.ladders, config.ladder, "ladder") if config.ladder else book.ladder_for(kind)


def _workload_names(config: PerfConfig, ladder: Ladder | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return what was asked for, else what the ladder is measured under, else all there are."""
    if config.workloads:
        return config.workloads
    usual = (ladder.workloads if ladder else ()) or known
    if config.profile == "quick":
        return (QUICK_WORKLOAD if QUICK_WORKLOAD in usual else usual[0],)
    return usual


def _rungs(config: PerfConfig, ladder: Ladder) -> tuple[str, ...]:
    """Return the ladder's engines: all, or the last where it must be quick."""
    return ladder.engines[-1:] if config.profile == "quick" else ladder.engines


def _fit(workload: WorkloadSpec, config: PerfConfig) -> WorkloadSpec:
    """Return the workload with the repetitions that were asked for, else its own.

    Also where it must be quick: they cost seconds beside a boot, and without them nobody knows what they
    would differ by.
    """
    return workload.model_copy(update={"repetitions": config.repetitions or workload.repetitions})
