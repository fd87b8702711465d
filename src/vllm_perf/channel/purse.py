# SPDX-License-Identifier: Apache-2.0
"""What a run may cost and has cost: nothing is sent whose worst case would go beyond the cap."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from vllm_perf.spec.channel import Prices

MILLION = 1_000_000
# A byte-level tokenizer never makes more tokens than bytes, so this bounds a prompt before anything is known.
MOST_TOKENS_A_BYTE = 1.0
# Once the channel has counted prompts of a size, its most tokens a byte so far, and a tenth more, bounds the
# next of that size. A small prompt says nothing of a large one: its bytes are mostly JSON.
MARGIN = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request about to be sent: its body's size, and the most tokens it may bring back."""

    body_bytes: int
    max_tokens: int


@dataclass(slots=True, kw_only=True)
class Purse:
    """The money of one channel, in its own currency; ``cap`` ``None`` is unlimited (only where all is free).

    ``tokens_a_byte`` holds, for each power of two of a body's size, the most prompt tokens a byte seen so
    far; ``overrun`` is the most output tokens per token allowed: a channel that ignores ``max_tokens`` makes
    its own requests dearer. ``uncounted`` requests came without counts and were charged their worst case.
    """

    prices: Prices
    cap: float | None
    spent: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    tokens_a_byte: dict[int, float] = field(default_factory=dict)
    overrun: float = 1.0

    def worst(self, wanted: Wanted) -> float:
        """Return the most that one request can cost, by what is known of the channel so far."""
        return self._cost(self.most_prompt(wanted), wanted.max_tokens * self.overrun)

    def affords(self, wanted: Iterable[Wanted]) -> bool:
        """Tell whether all of these may be sent: spent + the worst case of each stays within the cap."""
        return self.cap is None or self.spent + sum(self.worst(one) for one in wanted) <= self.cap

    def charge(self, wanted: Wanted, prompt_tokens: int | None, output_tokens: int | None) -> None:
        """Take what a request that was answered has cost; without counts, its worst case."""
        if prompt_tokens is None or output_tokens is None:
            self.uncounted += 1
            self.spent += self.worst(wanted)
            return
        size = wanted.body_bytes.bit_length()
        seen = prompt_tokens / wanted.body_bytes
        self.tokens_a_byte[size] = max(seen, self.tokens_a_byte.get(size, 0.0))
        self.overrun = max(self.overrun, output_tokens / wanted.max_tokens)
        self.prompt_tokens += prompt_tokens
        self.output_tokens += output_tokens
        self.spent += self._cost(prompt_tokens, output_tokens)

    def most_prompt(self, wanted: Wanted) -> float:
        """Return the most prompt tokens one request can have, by the prompts of its size counted so far."""
        size = wanted.body_bytes.bit_length()
        known = [rate for bits, rate in self.tokens_a_byte.items() if bits in (size - 1, size, size + 1)]
        rate = max(known) * MARGIN if known and size in self.tokens_a_byte else MOST_TOKENS_A_BYTE
        return wanted.body_bytes * rate

    def _cost(self, prompt_tokens: float, output_tokens: float) -> float:
        charged = (
            prompt_tokens * self.prices.prompt_per_million + output_tokens * self.prices.output_per_million
        )
        return charged / MILLION
