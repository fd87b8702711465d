# SPDX-License-Identifier: Apache-2.0
"""A comparison, and a whole report of a run that got slower, for tests of every renderer."""

from dataclasses import replace
from functools import cache
from typing import Any

from tests.unit.history.synthetic import Truth, made_up
from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.compare import Rules, RunComparison, compare_run
from vllm_perf.history.entry import entry_of
from vllm_perf.history.lineage import Lineage, Tier
from vllm_perf.history.record import RunRecord
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.types import BudgetVerdict, Change, Comparison, Status

ORDER = ("initial", "caching", "fp8")


def comparison(**more: Any) -> Comparison:
    """Return a comparison that is the same, by default."""
    one = Comparison(
        metric="ttft_p50",
        unit="ms",
        change=Change.SAME,
        base=200.0,
        head=202.0,
        ratio=1.01,
        low=0.99,
        high=1.03,
        allowed=0.05,
        floor=0.018,
        allowed_by="asked",
        pairs=5,
        missing_pairs=0,
        reason="within what is allowed",
        gating=True,
    )
    return replace(one, **more)


def compared(head: RunRecord, *bases: RunRecord) -> RunComparison:
    """Compare ``head`` with ``bases``."""
    files = {one.run_id: one for one in bases}
    lineage = Lineage(tiers=(Tier(ranks=None, note="chosen by time alone"),), past="any commit")
    entries = [entry_of(one, one.run_id) for one in bases]
    found = find_baselines(entries, head, lineage=lineage, policy=HistorySpec())
    return compare_run(head, found, lambda run: files[run.file], Rules())


@cache
def base_run() -> RunRecord:
    """Return a run to compare with."""
    return made_up("base", Truth(seed=1))


@cache
def slower_run() -> RunRecord:
    """Return a run whose last rung answers 40 % later, on another vLLM."""
    return made_up("head", Truth(seed=2, slower="fp8", ttft=1.4), vllm="0.33.0")


def verdict(
    status: Status, metric: str = "ttft_p50", reason: str = "261 ms, at most 250 is allowed"
) -> BudgetVerdict:
    """Return a budget's outcome."""
    return BudgetVerdict(status=status, metric=metric, value=261.0, limit=250.0, reason=reason)
