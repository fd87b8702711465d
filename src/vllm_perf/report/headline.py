# SPDX-License-Identifier: Apache-2.0
"""The one verdict over a whole run, and the sentence under it: the worst that happened."""

from collections.abc import Mapping, Sequence

from vllm_perf.history.compare import Compared, RunComparison
from vllm_perf.metrics.table import GATING
from vllm_perf.report.model import Headline
from vllm_perf.verdict.evidence import SHOWN_ONLY
from vllm_perf.verdict.types import BudgetVerdict, Change, Status

Budgets = Mapping[tuple[str, str], Sequence[BudgetVerdict]]
# How tests ended ("passed", "failed", "no verdict", ...), each with what it said.
Ended = Mapping[str, Sequence[str]]
FAILED, NO_VERDICT = "failed", "no verdict"
# Else a reader would hold the exit code for a lie.
UNASSERTED = " (seen only: no test of this session fails on it, so the exit code does not say it)"


def judge(
    comparison: RunComparison | None,
    budgets: Budgets,
    failures: Mapping[str, str],
    ended: Ended | None = None,
) -> tuple[Headline, str]:
    """Return the verdict over everything and the one sentence under it; the worst comes first.

    ``ended`` is how tests ended, where there were any: the headline then says what their exit code says.
    Without it, whatever is undecided is no verdict.
    """
    outcomes = [one for several in budgets.values() for one in several]
    if failures:
        return (
            Headline.LAB_BROKEN,
            f"{_count(len(failures), 'engine')} could not be measured: {', '.join(failures)}",
        )
    return (
        _worse(comparison, outcomes, ended or {})
        or _doubtful(comparison, outcomes, ended)
        or _well(comparison, outcomes)
    )


def _worse(
    comparison: RunComparison | None, outcomes: Sequence[BudgetVerdict], ended: Ended
) -> tuple[Headline, str] | None:
    over = [one for one in outcomes if one.status is Status.FAIL]
    if comparison is not None and comparison.regressed:
        told = "; ".join(_told(one) for one in comparison.regressed[:3])
        return Headline.REGRESSED, told + (UNASSERTED if ended and not ended.get(FAILED) else "")
    if over:
        return Headline.OVER_BUDGET, "; ".join(f"{one.metric}: {one.reason}" for one in over[:3])
    return (Headline.FAILED, _said(ended[FAILED])) if ended.get(FAILED) else None


def _doubtful(
    comparison: RunComparison | None, outcomes: Sequence[BudgetVerdict], ended: Ended | None
) -> tuple[Headline, str] | None:
    alone = comparison is not None and not comparison.compared and bool(comparison.partnerless)
    unclear = [one for one in outcomes if one.status is Status.NO_VERDICT]
    undecided = comparison is not None and comparison.change is Change.INCONCLUSIVE
    if alone and comparison is not None:
        sentence = f"nothing could be compared: {comparison.partnerless[0]}"
    else:
        sentence = _undecided(comparison, unclear)
    if ended is None:
        return (Headline.UNKNOWN, sentence) if alone or unclear or undecided else None
    if ended.get(NO_VERDICT):
        return Headline.UNKNOWN, sentence or _said(ended[NO_VERDICT])
    if alone:
        return Headline.NOT_COMPARED, sentence
    return (Headline.NO_REGRESSION, sentence) if undecided else None


def _well(comparison: RunComparison | None, outcomes: Sequence[BudgetVerdict]) -> tuple[Headline, str]:
    change = comparison.change if comparison else None
    if comparison is not None and change in (Change.IMPROVED, Change.SAME):
        return Headline(change), _count(len(comparison.compared), "series", "series") + " compared"
    if comparison is not None and comparison.created:
        return Headline.CREATED, "nothing was stored before; the next run is compared with this one"
    kept = sum(one.status is Status.PASS for one in outcomes)
    if outcomes and kept == len(outcomes):
        return Headline.WITHIN_BUDGET, _count(kept, "budget") + " kept"
    if outcomes:
        return (
            Headline.MEASURED,
            f"{kept} of {_count(len(outcomes), 'budget')} kept; no test asked for the rest",
        )
    return Headline.MEASURED, "nothing to compare with, and no budget set"


def _said(lines: Sequence[str]) -> str:
    return "; ".join(list(dict.fromkeys(lines))[:3])


def _told(one: Compared) -> str:
    ratio = one.comparison.ratio
    by = f" by {(ratio - 1) * 100:+.1f} %" if ratio is not None else ""
    return f"{one.key}{by}"


def _undecided(comparison: RunComparison | None, budgets: Sequence[BudgetVerdict]) -> str:
    told = [f"{one.metric}: {one.reason}" for one in budgets]
    open_ones = [
        one
        for one in (comparison.compared if comparison else ())
        if one.comparison.gating and one.comparison.change is Change.INCONCLUSIVE
    ]
    if open_ones:
        pairs = max((one.comparison.missing_pairs or 0 for one in open_ones), default=0)
        more = f"; {_count(pairs, 'more pair')} of boots would decide" if pairs else ""
        single = all(one.comparison.pairs == 1 for one in open_ones)
        how = " (`vllm-perf gate` measures both sides again and again)" if single else ""
        told.append(f"{_count(len(open_ones), 'comparison')} undecided{more}{how}")
    return "; ".join(told[:3]) or _unjudged(comparison)


def _unjudged(comparison: RunComparison | None) -> str:
    """Say why nothing that was compared could have turned red."""
    compared = comparison.compared if comparison else ()
    reasons = [one.comparison.reason for one in compared if one.key.metric in GATING]
    why = next((reason for reason in reasons if SHOWN_ONLY in reason), "")
    return f"nothing could be judged; {SHOWN_ONLY}{why.partition(SHOWN_ONLY)[2]}" if why else ""


def _count(count: int, word: str, plural: str = "") -> str:
    return f"{count} {word if count == 1 else plural or word + 's'}"
