# SPDX-License-Identifier: Apache-2.0
"""What a run may cost and has cost: nothing is sent whose worst case would go beyond the cap."""

from collections.abc import Iterable
from dataclasses import dataclass

from vllm_perf.spec.channel import Prices

MILLION = 1_000_000
# A byte-level tokenizer never makes more tokens than bytes, so this bounds a prompt before anything is known.
MOST_TOKENS_A_BYTE = 1.0
# Once the channel has counted prompts, its most tokens a byte so far, and a tenth more, bounds the next.
MARGIN = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request about to be sent: its body's size, and the most tokens it may bring back."""

    body_bytes: int
    max_tokens: int


@dataclass(slots=True, kw_only=True)
class Purse:
    """The money of one channel, in its own currency; ``cap`` ``None`` is unlimited (only where all is free).

    ``tokens_a_byte`` is the most prompt tokens a body byte seen so far, ``overrun`` the most output tokens
    per token allowed: a channel that ignores ``max_tokens`` makes its own requests dearer.
    """

    prices: Prices
    cap: float | None
    spent: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0
    tokens_a_byte: float | None = None
    overrun: float = 1.0

    def worst(self, wanted: Wanted) -> float:
        """Return the most that one request can cost, by what is known of the channel so far."""
        return self._cost(self._most_prompt(wanted), wanted.max_tokens * self.overrun)

    def affords(self, wanted: Iterable[Wanted]) -> bool:
        """Tell whether all of these may be sent: spent + the worst case of each stays within the cap."""
        return self.cap is None or self.spent + sum(self.worst(one) for one in wanted) <= self.cap

    def charge(self, wanted: Wanted, prompt_tokens: int | None, output_tokens: int | None) -> None:
        """Take what a request that was answered has cost; without counts, its worst case."""
        if prompt_tokens is None or output_tokens is None:
            self.uncounted += 1
            self.spent += self.worst(wanted)
            return
        seen = prompt_tokens / wanted.body_bytes
        self.tokens_a_byte = max(seen, self.tokens_a_byte or 0.0)
        self.overrun = max(self.overrun, output_tokens / wanted.max_tokens)
        self.prompt_tokens += prompt_tokens
        self.output_tokens += output_tokens
        self.spent += self._cost(prompt_tokens, output_tokens)

    def _most_prompt(self, wanted: Wanted) -> float:
        rate = MOST_TOKENS_A_BYTE if self.tokens_a_byte is None else self.tokens_a_byte * MARGIN
        return wanted.body_bytes * rate

    def _cost(self, prompt_tokens: float, output_tokens: float) -> float:
        charged = (
            prompt_tokens * self.prices.prompt_per_million + output_tokens * self.prices.output_per_million
        )
        return charged / MILLION
