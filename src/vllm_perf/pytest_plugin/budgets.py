# SPDX-License-Identifier: Apache-2.0
"""The budgets that hold on this machine, looked up by engine, workload and metric."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from vllm_perf.lab.machine import Machine
from vllm_perf.pytest_plugin.plan import Plan
from vllm_perf.spec.budget import Budget, BudgetFile

LAST, FIRST = "@last", "@first"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetBook:
    """The budgets of one kind of hardware, with ladder places turned into engine names."""

    file: BudgetFile | None
    budgets: tuple[Budget, ...]
    asserted: Mapping[tuple[str, str], tuple[str, ...]]

    @classmethod
    def choose(cls, plan: Plan, machine: Machine) -> "BudgetBook":
        """Take the file whose platform fits and whose GPU name is the longest part of this GPU's."""
        name = machine.gpu_names[0] if machine.gpu_names else ""
        fitting = [file for file in plan.budgets if file.platform == machine.kind and file.gpu in name]
        file = max(fitting, key=lambda one: len(one.gpu), default=None)
        ladder = plan.ladder.engines if plan.ladder else ()
        placed = [_placed(budget, ladder) for budget in (file.budgets if file else ())]
        # On a ladder of one rung the last is the first, and gains nothing over itself.
        budgets = tuple(budget for budget in placed if budget.relative_to != budget.engine)
        asserted: dict[tuple[str, str], list[str]] = defaultdict(list)
        for engine in plan.engines:
            for workload in plan.workloads:
                for budget in budgets:
                    if _applies(budget, engine.name, workload.name):
                        asserted[engine.name, workload.name].append(budget.metric)
        return cls(file=file, budgets=budgets, asserted={k: tuple(v) for k, v in asserted.items()})

    def of(self, engine: str, workload: str, metric: str) -> tuple[Budget, ...]:
        """Return the budgets that one test has to keep."""
        return tuple(
            budget
            for budget in self.budgets
            if budget.metric == metric and _applies(budget, engine, workload)
        )

    def tightest_ttft_ms(self, engine: str, workload: str) -> float | None:
        """Return the smallest absolute TTFT limit asserted on a cell, ms."""
        limits = [
            budget.max
            for budget in self.budgets
            if budget.metric.startswith("ttft")
            and budget.max is not None
            and budget.relative_to is None
            and _applies(budget, engine, workload)
        ]
        return min(limits, default=None)


def _applies(budget: Budget, engine: str, workload: str) -> bool:
    return budget.engine in ("*", engine) and budget.workload in ("*", workload)


def _placed(budget: Budget, ladder: tuple[str, ...]) -> Budget:
    places = {LAST: ladder[-1], FIRST: ladder[0]} if ladder else {}
    update = {}
    for field in ("engine", "relative_to"):
        value = getattr(budget, field)
        if value in places:
            update[field] = places[value]
    return budget.model_copy(update=update)
