# SPDX-License-Identifier: Apache-2.0
"""Words of known cost and text of an exact number of tokens."""

import random
from collections.abc import Sequence

import pytest

from vllm_perf.load.lexicon import Lexicon, candidates, learn
from vllm_perf.spec.base import SpecError


class Measure:
    """Add up letters from the third on, at least one token a word; count the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, words: Sequence[str]) -> int:
        self.calls += 1
        return sum(max(1, len(word) - 1) for word in words)


def test_candidates_are_the_same_every_time() -> None:
    assert candidates() == candidates()


def test_candidates_are_all_different() -> None:
    assert len(set(candidates())) == len(candidates())


def test_a_group_of_one_token_words_is_learned_by_one_call() -> None:
    measure = Measure()
    learn(measure, ["ba", "be", "bi", "bo"] * 1)
    assert measure.calls == 1


def test_a_costly_word_is_found_by_halving() -> None:
    lexicon = learn(Measure(), ["ba", "be", "bik", "bo"])
    assert lexicon.costs == {"ba": 1, "be": 1, "bik": 2, "bo": 1}


def test_one_token_words_are_kept_alone_where_there_are_enough() -> None:
    words = [a + b for a in "bcdfghjk" for b in "aeiouy"] + ["long"]
    assert set(learn(Measure(), words).costs.values()) == {1}


def test_words_that_cost_nothing_are_refused() -> None:
    with pytest.raises(SpecError, match="did not change its token count"):
        learn(lambda words: 0, ["ba", "be"])


def test_fill_costs_what_was_asked_with_one_token_words() -> None:
    lexicon = Lexicon(words=("ba", "be"), costs={"ba": 1, "be": 1})
    assert lexicon.cost(lexicon.fill(17, random.Random(1))) == 17


@pytest.mark.parametrize("tokens", range(2, 40))
def test_fill_costs_what_was_asked_with_words_of_two_and_three_tokens(tokens: int) -> None:
    lexicon = Lexicon(words=("a", "ba"), costs={"a": 2, "ba": 3})
    assert lexicon.cost(lexicon.fill(tokens, random.Random(tokens))) == tokens


def test_fill_says_when_no_combination_fits() -> None:
    lexicon = Lexicon(words=("a",), costs={"a": 2})
    with pytest.raises(SpecError, match="exactly 3 tokens"):
        lexicon.fill(3, random.Random(0))


def test_fill_of_less_than_nothing_is_refused() -> None:
    lexicon = Lexicon(words=("a",), costs={"a": 1})
    with pytest.raises(SpecError, match="give it more tokens"):
        lexicon.fill(-1, random.Random(0))


def test_equal_seeds_give_equal_text() -> None:
    lexicon = Lexicon(words=tuple(candidates()), costs=dict.fromkeys(candidates(), 1))
    assert lexicon.fill(50, random.Random("7")) == lexicon.fill(50, random.Random("7"))
