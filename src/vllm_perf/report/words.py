# SPDX-License-Identifier: Apache-2.0
"""Numbers as a person reads them; every renderer uses these, so that they never disagree."""

import math
from collections.abc import Iterable

from vllm_perf.report.gain import Gain
from vllm_perf.verdict.evidence import BY_PROMPT
from vllm_perf.verdict.types import Comparison

NOTHING = "–"
BY_PROMPT_NOTE = (
    "Changes of medians are taken prompt by prompt where both sides answered the same prompts, "
    "so they need not be the ratio of the two values shown."
)
PAIRS_NOTE = "+5? beside the pairs: as things look, so many more pairs of boots would decide."


def number(value: float | None) -> str:
    """Return a value with three figures, whole from 100 on; infinity is what a failed request leaves."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value and abs(value) < 100:
        digits = max(0, 2 - math.floor(math.log10(abs(value))))
        return f"{value:.{min(digits, 4)}f}"
    return f"{value:,.0f}"


def share(value: float | None) -> str:
    """Return a share as a percentage."""
    return NOTHING if value is None else f"{value * 100:.0f} %"


def percent(value: float) -> str:
    """Return a share to a tenth of a percent."""
    return f"{value * 100:.1f} %"


def allowed_change(one: Comparison) -> str:
    """Return what was allowed, nothing where nothing was judged."""
    return percent(one.allowed) if one.allowed_by else NOTHING


def floor(one: Comparison) -> str:
    """Return the noise floor, or that there is none yet."""
    if one.floor is not None:
        return percent(one.floor)
    return "not learnt" if one.allowed_by else NOTHING


def by_prompt_note(rows: Iterable[Comparison]) -> str:
    """Return the note that explains changes taken prompt by prompt, where there are any."""
    return BY_PROMPT_NOTE if any(one.how == BY_PROMPT for one in rows) else ""


def pairs_note(rows: Iterable[Comparison]) -> str:
    """Return what a number such as ``+12?`` beside the pairs means, where there is one."""
    return PAIRS_NOTE if any(one.missing_pairs for one in rows) else ""


def verdict(one: Comparison) -> str:
    """Return the verdict; what has no interval was not judged at all."""
    return str(one.change) if one.low is not None else "not judged"


def change(ratio: float | None) -> str:
    """Return a ratio as a signed change: 1.05 is ``+5.0 %``."""
    if ratio is None:
        return NOTHING
    percent = (ratio - 1) * 100
    return f"{percent:+.0f} %" if abs(percent) >= 100 else f"{percent:+.1f} %"


def interval(one: Comparison) -> str:
    """Return a comparison's interval, or nothing."""
    if one.low is None or one.high is None:
        return ""
    return f"{change(one.low)} … {change(one.high)}"


def gain(one: Gain | None) -> str:
    """Return a gain as ``3.8×``."""
    return NOTHING if one is None else f"{number(one.value)}×"


def gain_interval(one: Gain | None) -> str:
    """Return a gain's interval, or nothing."""
    if one is None or one.low is None or one.high is None:
        return ""
    return f"{number(one.low)}–{number(one.high)}"


def before_after(one: Comparison) -> str:
    """Return both values with their unit."""
    return f"{number(one.base)} → {number(one.head)} {one.unit}".strip()
