# SPDX-License-Identifier: Apache-2.0
"""The sentences of a comparison: numbers first, then what they were held against."""

import math

from vllm_perf.verdict.evidence import OWN_NOISE_PAIRS, Evidence
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Change


def ratio_of(one: Evidence, worse_log: float) -> float:
    """Return head / base for a log ratio that points to worse."""
    return math.exp(worse_log if one.lower_is_better else -worse_log)


def interval_of(one: Evidence, low: float, high: float) -> tuple[float, float]:
    """Return the interval of head / base, low end first, from one that points to worse."""
    ends = sorted((ratio_of(one, low), ratio_of(one, high)))
    return ends[0], ends[1]


def percent(ratio: float) -> str:
    """Return a ratio as a signed change: 1.05 is "+5.0 %"."""
    return f"{100 * (ratio - 1):+.1f} %"


def share(value: float) -> str:
    """Return a share as an unsigned percentage: 0.03 is "3.0 %"."""
    return f"{100 * value:.1f} %"


def amount(value: float) -> str:
    """Return a value with four figures at most, without an exponent below a million."""
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{min(digits, 3)}f}"


def sentence(one: Evidence, unit: str, interval: tuple[float, float], change: Change, policy: Policy) -> str:
    """Say what was measured and why it got its verdict."""
    low, high = interval
    floor = "not learnt yet" if one.floor is None else share(one.floor)
    pairs = "1 pair" if one.worse.pairs == 1 else f"{one.worse.pairs} pairs"
    text = (
        f"{one.metric} {amount(one.base)} -> {amount(one.head)} {unit}:"
        f" {percent(ratio_of(one, one.worse.log_ratio))}"
        f" ({100 * (1 - policy.interval_alpha):.3g} % interval {percent(low)} to {percent(high)}), allowed"
        f" {share(one.allowed)} ({one.allowed_by}), noise floor {floor}, {pairs} compared {one.how}"
    )
    if one.floor is None and one.worse.pairs < OWN_NOISE_PAIRS:
        text += f", boots assumed to differ by {share(policy.boots.of(one.metric))}"
    return f"{text}: {_because(change)}"


def _because(change: Change) -> str:
    return {
        Change.REGRESSED: "worse, and by more than allowed",
        Change.IMPROVED: "better, and by more than allowed",
        Change.SAME: "the change is within what is allowed",
        Change.INCONCLUSIVE: "too uncertain to tell",
    }[change]
