# SPDX-License-Identifier: Apache-2.0
"""Words whose cost in tokens is known, and text of an exact number of tokens made of them."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vllm_perf.spec.base import SpecError

CONSONANTS = "bcdfghjklmnprstvwz"
VOWELS = "aeiou"
WANTED_SINGLE = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """``costs`` says what each word, with the space before it, adds to any prompt, in tokens."""

    words: tuple[str, ...]
    costs: dict[str, int]

    def cost(self, words: Iterable[str]) -> int:
        """Return the tokens that these words add."""
        return sum(self.costs[word] for word in words)

    def fill(self, tokens: int, rng: random.Random) -> list[str]:
        """Draw words that cost ``tokens`` together.

        Raises:
            SpecError: no combination of the words costs exactly that.
        """
        if tokens < 0:
            raise SpecError(f"a prompt would need {tokens} tokens of text: give it more tokens")
        if max(self.costs.values()) == 1:
            return rng.choices(self.words, k=tokens)
        return self._fill_mixed(tokens, rng)

    def _fill_mixed(self, tokens: int, rng: random.Random) -> list[str]:
        chosen: list[str] = []
        left, reserve = tokens, 3 * max(self.costs.values())
        while left > reserve:
            chosen.append(rng.choice(self.words))
            left -= self.costs[chosen[-1]]
        return chosen + self._finish(left)

    def _finish(self, tokens: int) -> list[str]:
        """Make up a small rest exactly: the coin problem, fewest words first."""
        best: dict[int, list[str]] = {0: []}
        cheapest = {cost: word for word, cost in self.costs.items()}
        for total in range(1, tokens + 1):
            options = [best[total - cost] + [word] for cost, word in cheapest.items() if total - cost in best]
            if options:
                best[total] = min(options, key=len)
        if tokens not in best:
            raise SpecError(f"no words of this tokenizer cost exactly {tokens} tokens together")
        return best[tokens]


def candidates(limit: int = 256) -> tuple[str, ...]:
    """Return the words to try: all of two letters, then some of three, always the same ones."""
    short = [c + v for c in CONSONANTS for v in VOWELS]
    longer = [word + c for word in short for c in CONSONANTS]
    random.Random(0).shuffle(longer)
    letters = [*VOWELS, *CONSONANTS]
    return tuple(dict.fromkeys([*short, *longer[: max(0, limit - len(short))]]))[:limit] + tuple(letters)


def learn(measure: Callable[[Sequence[str]], int], words: Sequence[str]) -> Lexicon:
    """Measure what each word costs; ``measure`` returns the tokens a list of words adds to a prompt.

    Words are measured in groups: a group of n that costs n tokens holds one-token words only.
    """
    costs: dict[str, int] = {}
    pending = [tuple(words)]
    while pending:
        group = pending.pop()
        total = measure(group)
        if total == len(group) or len(group) == 1:
            costs |= dict.fromkeys(group, total // len(group))
        else:
            half = len(group) // 2
            pending += [group[half:], group[:half]]
    return choose(costs, words)


def choose(costs: dict[str, int], words: Sequence[str]) -> Lexicon:
    """Keep one-token words alone where there are enough of them, else every word that costs any token.

    Raises:
        SpecError: the words cost nothing: the counter does not count.
    """
    usable = [word for word in words if costs[word] > 0]
    single = [word for word in usable if costs[word] == 1]
    kept = single if len(single) >= WANTED_SINGLE else usable
    if not kept:
        raise SpecError("words added to a prompt did not change its token count: the counter cannot be used")
    return Lexicon(words=tuple(kept), costs={word: costs[word] for word in kept})
