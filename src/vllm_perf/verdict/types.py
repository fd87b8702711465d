# SPDX-License-Identifier: Apache-2.0
"""The words a judgement is made of."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Judge one measurement against one budget."""

    PASS = "pass"
    FAIL = "fail"
    NO_VERDICT = "no verdict"


class Change(StrEnum):
    """Judge one metric of one side against the other."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    """One budget's outcome; ``reason`` is a sentence with the numbers in it."""

    status: Status
    metric: str
    value: float | None
    limit: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One metric, base against head, on the log scale.

    ``ratio`` is head ÷ base with its interval ``low``..``high``; ``allowed`` is the largest of the user's
    change, the noise floor and the absolute floor, as a share (0.05 is 5 %); ``floor`` is the noise floor
    that was used. ``pairs`` is how many replicates carried it, ``missing_pairs`` how many more would decide.
    ``robust_ratio`` is the Hodges-Lehmann estimate, ``p_permutation`` the sign-flip cross-check, ``how`` the
    way a pair was compared ("prompt by prompt" or "value by value"). Only ``gating`` metrics turn red.
    """

    metric: str
    unit: str
    change: Change
    base: float | None
    head: float | None
    ratio: float | None
    low: float | None
    high: float | None
    allowed: float
    floor: float | None
    allowed_by: str
    pairs: int
    missing_pairs: int | None
    reason: str
    gating: bool = True
    robust_ratio: float | None = None
    p_permutation: float | None = None
    how: str = ""
