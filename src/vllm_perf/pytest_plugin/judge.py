# SPDX-License-Identifier: Apache-2.0
"""What a perf test asserts: measured first, then judged against budgets and against the baseline."""

from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin import OUTCOME
from vllm_perf.pytest_plugin.bridge import stock_failure
from vllm_perf.pytest_plugin.comparisons import Told
from vllm_perf.pytest_plugin.failures import BudgetFailed, LabBroken, NoVerdict, PerfOutcome
from vllm_perf.pytest_plugin.items import Case
from vllm_perf.pytest_plugin.session import PerfSession
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.budgets import judge
from vllm_perf.verdict.types import Change, Status

NOT_COMPARABLE = "not comparable"


@dataclass(slots=True, kw_only=True)
class Judge:
    """The judge of one test; every method ends in a pass or raises one of the three outcomes."""

    session: PerfSession
    item: pytest.Item
    case: Case

    @property
    def engine(self) -> EngineSpec:
        """Return the configuration under test."""
        return next(one for one in self.session.plan.engines if one.name == self.case[0])

    @property
    def workload(self) -> WorkloadSpec:
        """Return the load under test."""
        return next(one for one in self.session.plan.workloads if one.name == self.case[1])

    def check(self) -> None:
        """Measure the case, then hold it against its budgets and its baseline.

        Raises:
            LabBroken: nothing could be measured.
            NoVerdict: the measurement proves nothing either way.
            BudgetFailed: a budget was missed, or it got worse.
        """
        result = self._measured()
        self._require_comparable(result)
        self._require_valid(result)
        self._absolute_budgets(result)
        self._pass(result, **self._comparison(result))

    def check_gain(self) -> None:
        """Hold the last rung against the first: every budget that names another engine."""
        result = self._cell_of(self.engine)
        self._require_valid(result)
        metric = self.case[2]
        budgets = [one for one in self._budgets() if one.relative_to is not None]
        if not budgets:
            self._end(NoVerdict, f"no budget says what {metric} must gain on this hardware", result)
        for budget in budgets:
            assert budget.relative_to is not None
            base = self._other(budget.relative_to)
            self._require_valid(base)
            verdict = judge(budget, self._of(result), self._of(base))
            if verdict.status is not Status.PASS:
                kind = BudgetFailed if verdict.status is Status.FAIL else NoVerdict
                self._end(kind, verdict.reason, result, budget=verdict.reason)
        self._pass(result, budget=verdict.reason)

    def check_hit_rate(self) -> None:
        """Hold the cache's counters against what the engine and the workload say."""
        result = self._measured()
        caching = result.cell.facts.prefix_caching if result.cell else None
        if caching is False:
            hits = [repetition.work.cached_tokens for repetition in result.cell.repetitions]  # type: ignore[union-attr]
            if any(hits):
                self._end(
                    BudgetFailed,
                    f"prefix caching is off, yet the server counted {hits} cached tokens",
                    result,
                )
            self._pass(result)
            return
        self._require_comparable(result)
        self._require_valid(result)
        value = self._of(result).require()
        low, high = hit_rate_band(self.workload)
        if not low <= value <= high:
            explanation = f"prefix cache hit rate {value:.3f} is outside {low:.3f}..{high:.3f}"
            self._end(BudgetFailed, explanation, result)
        self._pass(result, **self._comparison(result))

    def check_boot(self) -> None:
        """Boot the engine; it must come up and run what was asked."""
        result = self.session.boot(self.engine)
        if result.failure is not None:
            self._end(LabBroken, result.failure, result)
        if result.cell is None:
            self._end(NoVerdict, why_invalid(result), result)
        if result.find(self.case[2]) is not None:
            self._absolute_budgets(result)
        self._pass(result, **self._comparison(result))

    # -----------------------------------------------------------------------------------------------------

    def _measured(self) -> CellResult:
        result = self.session.cell(self.engine, self.workload)
        if result.failure is not None:
            self._end(LabBroken, result.failure, result)
        return result

    def _cell_of(self, engine: EngineSpec) -> CellResult:
        """Return a cell that the engine's own tests measure as well: under xdist another worker has them."""
        result = self.session.cell(engine, self.workload, patient=True)
        if result.failure is not None:
            self._end(LabBroken, result.failure, result)
        return result

    def _other(self, engine: str) -> CellResult:
        spec = next((one for one in self.session.plan.engines if one.name == engine), None)
        if spec is None:
            self._end(NoVerdict, f"the rung to compare with, '{engine}', is not part of this run", None)
        return self._cell_of(spec)

    def _of(self, result: CellResult) -> Any:
        measurement = result.measurement(self.case[2])
        if measurement is None:
            self._end(NoVerdict, f"{self.case[2]} is not a metric of this project", result)
        return measurement

    def _require_comparable(self, result: CellResult) -> None:
        """Leave a metric that means nothing on this channel alone, in the open: skipped, with the reason.

        Where a budget wants a verdict on it, there is none.
        """
        reason = result.not_comparable.get(self.case[2])
        if reason is not None and not self._budgets():
            self._note(NOT_COMPARABLE, reason, result)
            pytest.skip(f"{NOT_COMPARABLE}: {reason}")

    def _require_valid(self, result: CellResult) -> None:
        if result.invalid:
            self._end(NoVerdict, why_invalid(result), result)
        measurement = self._of(result)
        if measurement.value is None:
            self._end(NoVerdict, f"{measurement.metric}: {measurement.unavailable}", result)

    def _budgets(self) -> tuple[Any, ...]:
        return self.session.budgets.of(*self.case)

    def _absolute_budgets(self, result: CellResult) -> None:
        for budget in self._budgets():
            if budget.relative_to is not None:
                continue
            verdict = judge(budget, self._of(result), None)
            if verdict.status is Status.FAIL:
                self._end(BudgetFailed, verdict.reason, result, budget=verdict.reason)
            if verdict.status is Status.NO_VERDICT:
                self._end(NoVerdict, verdict.reason, result, budget=verdict.reason)

    def _comparison(self, result: CellResult) -> dict[str, str]:
        """Hold the case against its baseline; return what there is to say of it, for the report."""
        outcome = self.session.comparisons.of(self.case, result)
        told = {} if outcome is None or outcome.created else self._judge_change(outcome, result)
        self._stock_checks(result)
        return told

    def _judge_change(self, outcome: Told, result: CellResult) -> dict[str, str]:
        fail_on = self.session.config.fail_on
        if outcome.comparison is None:
            if fail_on == "inconclusive":
                self._end(NoVerdict, outcome.explanation, result)
            return {"change": "no baseline"}
        change = outcome.comparison.change
        if change is Change.REGRESSED and outcome.comparison.gating and fail_on != "never":
            self._end(BudgetFailed, outcome.explanation, result, change=str(change))
        if change is Change.INCONCLUSIVE and outcome.comparison.gating and fail_on == "inconclusive":
            self._end(NoVerdict, outcome.explanation, result, change=str(change))
        return {"change": str(change)}

    def _stock_checks(self, result: CellResult) -> None:
        """Hold the case against ``--benchmark-compare-fail``, which would otherwise end the whole session."""
        series = result.find(self.case[2])
        said = stock_failure(self.item.config, series) if series is not None else None
        if said is not None:
            self._end(BudgetFailed, said, result, change=str(Change.REGRESSED))

    def _pass(self, result: CellResult, **more: str) -> None:
        self._note("passed", "", result, **more)

    def _end(
        self, kind: type[PerfOutcome], explanation: str, result: CellResult | None, **more: str
    ) -> NoReturn:
        self._note(kind.kind, explanation, result, **more)
        raise kind(explanation)

    def _note(self, kind: str, explanation: str, result: CellResult | None, **more: str) -> None:
        engine, workload, metric = self.case
        self.item.stash[OUTCOME] = {
            "kind": kind,
            "engine": engine,
            "workload": workload,
            "metric": metric,
            "explanation": explanation,
            **more,
        }


def why_invalid(result: CellResult) -> str:
    """Return why a cell gives no verdict on anything; nothing where it does."""
    return "\n  ".join(result.invalid)


def hit_rate_band(workload: WorkloadSpec) -> tuple[float, float]:
    """Return the hit rate a workload must show with caching on.

    Its own numbers where it has them; else for a shared prefix at least 80 % of the shared tokens' share
    (the first requests of a burst miss, and only whole KV blocks are cached), for unique prompts nearly 0.
    """
    prompt = workload.prompt
    total = prompt.shared_tokens + prompt.unique_tokens
    low = 0.8 * prompt.shared_tokens / total if total else 0.0
    high = 1.0 if prompt.shared_tokens else 0.02
    return (
        workload.hit_rate_min if workload.hit_rate_min is not None else low,
        workload.hit_rate_max if workload.hit_rate_max is not None else high,
    )
