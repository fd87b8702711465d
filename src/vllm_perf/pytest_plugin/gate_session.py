# SPDX-License-Identifier: Apache-2.0
"""A gate within pytest: measured once, at the first test that asks, then judged metric by metric."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import pytest

from vllm_perf.engine.errors import LabError
from vllm_perf.gate.lab import SideSpec, named_engine
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.session import GateRequest, run_gate
from vllm_perf.gate.summary import Summary
from vllm_perf.history.floors import read_floors
from vllm_perf.history.store import StoreError
from vllm_perf.lab.machine import detect_machine
from vllm_perf.metrics.table import METRICS
from vllm_perf.pytest_plugin import OUTCOME
from vllm_perf.pytest_plugin.failures import BudgetFailed, LabBroken, NoVerdict, PerfOutcome
from vllm_perf.pytest_plugin.gate_options import GateChoice, GateSide
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.pytest_plugin.plan import Plan
from vllm_perf.pytest_plugin.progress import Progress
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.files import load_engines
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import GateDecision
from vllm_perf.verdict.types import Change, Comparison

GateCase = tuple[str, str]


def gate_cases(plan: Plan) -> list[GateCase]:
    """Return one case per workload and gating metric."""
    return [(load.name, metric.name) for load in plan.workloads for metric in METRICS if metric.gating]


@dataclass(kw_only=True)
class GateSession:
    """One gate of one pytest session; ``command`` shows it again."""

    config: PerfConfig
    choice: GateChoice
    plan: Plan
    progress: Progress
    command: str
    broken: str = field(default="", init=False)

    def check(self) -> None:
        """Find out now whether both sides and the limits exist, and what was learnt can be read.

        Raises:
            pytest.UsageError: they do not.
        """
        try:
            for side in (self.choice.base, self.choice.head):
                named_engine(load_engines(side.engines_file), side.engine, self._platform)
            _ = self.limits
            read_floors(self.config.history_dir)
        except (SpecError, StoreError) as error:
            raise pytest.UsageError(str(error)) from None

    @property
    def limits(self) -> Limits:
        """Return how much may be measured.

        Raises:
            SpecError: the limits contradict themselves.
        """
        usual, choice = Limits(), self.choice
        return Limits(
            min_pairs=usual.min_pairs if choice.min_pairs is None else choice.min_pairs,
            max_pairs=usual.max_pairs if choice.max_pairs is None else choice.max_pairs,
            max_minutes=choice.max_minutes,
        )

    @property
    def _platform(self) -> str:
        return "golden" if self.config.golden else self.plan.machine.kind

    @cached_property
    def summary(self) -> Summary | None:
        """Return the gate's outcome, measuring it unless that was done; ``None`` where the lab is broken."""
        try:
            return run_gate(self._request(), self.progress, self.command)
        except LabError as error:
            self.broken = str(error)
            return None

    def _request(self) -> GateRequest:
        config = self.config
        allowed = self.choice.allowed
        return GateRequest(
            sides={"base": self._side(self.choice.base), "head": self._side(self.choice.head)},
            workloads={workload.name: workload for workload in self.plan.workloads},
            machine=detect_machine(),
            limits=self.limits,
            allowed=Policy().allowed if allowed is None else allowed,
            root=config.root,
            journal=config.work_dir / "gate",
            history=config.history_dir,
            log_dir=config.log_dir,
            model_cache=config.work_dir / "models",
            lock_wait_s=config.lock_wait_s,
            download=config.download,
        )

    def _side(self, side: GateSide) -> SideSpec:
        return SideSpec.choose(load_engines(side.engines_file), side.engine, self._platform, side.python)

    def text(self) -> str:
        """Return what the terminal shows at the end; nothing where no test asked for the gate."""
        if "summary" not in self.__dict__:
            return ""
        return self.broken if self.summary is None else self.summary.text()

    def write_markdown(self) -> None:
        """Write the job summary where one was asked for."""
        path = self.config.markdown
        if path is None or "summary" not in self.__dict__:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        broken = f"## 🛠️ The lab is broken\n\n```\n{self.broken}\n```\n"
        path.write_text(broken if self.summary is None else self.summary.markdown(), encoding="utf-8")


@dataclass(slots=True, kw_only=True)
class GateJudge:
    """The judge of one gating metric under one workload."""

    gate: Callable[[], GateSession]
    item: pytest.Item
    case: GateCase

    def check(self) -> None:
        """Fail where head is slower than base, or where nobody knows.

        A metric that cannot gate (a percentile of too few requests) is skipped with the reason, as the
        ``vllm-perf gate`` command leaves it out of its verdict.

        Raises:
            LabBroken: a side could not be booted or measured.
            NoVerdict: the pairs measured do not decide.
            BudgetFailed: head is slower, confirmed by a fresh pair.
        """
        gate = self.gate()
        summary = gate.summary
        if summary is None:
            self._end(LabBroken, gate.broken)
        workload, metric = self.case
        state = summary.outcome.decision.workloads[workload]
        one = next((found for found in state.comparisons if found.metric == metric), None)
        if one is None:
            self._end(BudgetFailed if state.change is Change.REGRESSED else NoVerdict, state.reason)
        if not one.gating:
            pytest.skip(one.reason)
        if one.change is Change.REGRESSED:
            self._end(BudgetFailed, _explained(summary, workload, one))
        if one.change is Change.INCONCLUSIVE:
            self._end(NoVerdict, _undecided(state, one))
        self._note("passed", "", one.change)

    def _end(self, kind: type[PerfOutcome], explanation: str) -> NoReturn:
        workload, metric = self.case
        text = f"{metric} under {workload}: {explanation}"
        self._note(kind.kind, text, None)
        raise kind(text)

    def _note(self, kind: str, explanation: str, change: Change | None) -> None:
        workload, metric = self.case
        noted: dict[str, Any] = {"kind": kind, "workload": workload, "metric": metric}
        self.item.stash[OUTCOME] = noted | {"explanation": explanation, "change": change and str(change)}


def _explained(summary: Summary, workload: str, one: Comparison) -> str:
    """Return what a reader needs of a regression, and the command that shows it again."""
    return "\n".join(
        [
            f"{one.change}: {one.reason}",
            f"  what moved: {summary.moved_in(workload, one.metric)}",
            f"  what differs: {'; '.join(summary.differs()) or 'nothing that is recorded'}",
            f"  base: {summary.base}; head: {summary.head}; {summary.effort()}",
            f"  again: {summary.command}",
        ]
    )


def _undecided(state: GateDecision, one: Comparison) -> str:
    missing = one.missing_pairs if one.missing_pairs is not None else state.missing_pairs
    more = f"; about {missing} more pairs would decide" if missing else ""
    return f"{one.change}: {one.reason}{more}"
