# SPDX-License-Identifier: Apache-2.0
"""Numbers read the same wherever they are shown."""

import math

import pytest

from tests.unit.report.samples import comparison
from vllm_perf.report import words
from vllm_perf.report.gain import Gain


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.inf, "∞"),
        (0.0, "0"),
        (0.00123, "0.0012"),
        (0.95, "0.950"),
        (3.8, "3.80"),
        (19.84, "19.8"),
        (99.96, "100.0"),
        (250.4, "250"),
        (1721.0, "1,721"),
    ],
)
def test_a_value_has_three_figures(value: float | None, shown: str) -> None:
    assert words.number(value) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"), [(None, "–"), (1.05, "+5.0 %"), (0.988, "-1.2 %"), (3.5, "+250 %")]
)
def test_a_ratio_is_a_signed_change(ratio: float | None, shown: str) -> None:
    assert words.change(ratio) == shown


def test_an_interval_is_shown_where_there_is_one() -> None:
    assert words.interval(comparison(low=0.98, high=1.03)) == "-2.0 % … +3.0 %"
    assert words.interval(comparison(low=None)) == ""


def test_a_floor_that_is_not_learnt_is_said_so() -> None:
    assert words.floor(comparison(floor=0.018)) == "1.8 %"
    assert words.floor(comparison(floor=None)) == "not learnt"
    assert words.floor(comparison(floor=None, allowed_by="")) == "–"


def test_missing_pairs_are_explained_where_there_are_any() -> None:
    assert words.pairs_note([comparison(), comparison(missing_pairs=5)]) == words.PAIRS_NOTE
    assert words.pairs_note([comparison(missing_pairs=None)]) == ""


def test_changes_taken_prompt_by_prompt_are_explained() -> None:
    assert words.by_prompt_note([comparison(), comparison(how="prompt by prompt")]) == words.BY_PROMPT_NOTE
    assert words.by_prompt_note([comparison(how="value by value")]) == ""


def test_what_has_no_interval_was_not_judged() -> None:
    assert words.verdict(comparison(low=None)) == "not judged"


def test_a_gain_is_a_factor_with_an_interval() -> None:
    assert words.gain(Gain(value=3.8, low=3.61, high=4.0)) == "3.80×"
    assert words.gain_interval(Gain(value=3.8, low=3.61, high=4.0)) == "3.61–4.00"
    assert words.gain(None) == "–"
    assert words.gain_interval(Gain(value=3.8)) == ""
