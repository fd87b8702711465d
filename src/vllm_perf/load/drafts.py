# SPDX-License-Identifier: Apache-2.0
"""A prompt before it becomes a request, and what every kind of prompt is made from."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from vllm_perf.load.counting import Prompt
from vllm_perf.load.fitting import Fitter
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import WorkloadSpec

Phase = Literal["measured", "warmup"]
# The first words of the warm-up are never the first words of a measured prompt.
WARMUP_LEADS = 8
VERIFY_ALL = 64
VERIFY_SAMPLE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One prompt with what is known about it; ``output_tokens`` only where it is the prompt's own."""

    prompt_id: str
    prompt: Prompt
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    offset_ns: int | None = None
    after: str | None = None

    def following(self, prompt_id: str) -> "Draft":
        """Return the same prompt, to be sent once ``prompt_id`` has ended."""
        return replace(self, after=prompt_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What prompts are drawn from. ``seed`` holds everything that may change the text."""

    workload: WorkloadSpec
    fitter: Fitter
    phase: Phase
    seed: str
    count: int

    def leads(self) -> tuple[str, ...]:
        """Return the words a prompt of this phase may begin with."""
        words = self.fitter.lexicon.words
        split = min(WARMUP_LEADS, len(words) // 2)
        return words[:split] if self.phase == "warmup" else words[split:]

    def nonce(self, index: int) -> tuple[str, tuple[str, ...]]:
        """Return the first word of prompt ``index`` and the words that keep it apart from all others.

        The index is written in base "number of leads", lowest digit first: the first word alone differs
        for as many prompts as there are leads.
        """
        leads = self.leads()
        words = self.fitter.lexicon.words
        rest, first = divmod(index, len(leads))
        tail = []
        while rest:
            rest, digit = divmod(rest, len(words))
            tail.append(words[digit])
        return leads[first], tuple(tail)

    def opening(self) -> str:
        """Return the word that begins a user message whose nonce stands elsewhere."""
        return self.fitter.lexicon.words[0]

    def words(self, count: int, name: str) -> list[str]:
        """Draw ``count`` words."""
        return random.Random(f"{self.seed}:{name}").choices(self.fitter.lexicon.words, k=count)

    def seeded(self, index: int) -> str:
        """Return the seed of prompt ``index``."""
        return f"{self.seed}:{index}"

    def prompt_id(self, index: int) -> str:
        """Return an id that is the same in every run and on both sides of a comparison."""
        return f"{'w' if self.phase == 'warmup' else 'p'}{index:05d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A prompt that depends on one text, and the total it must have."""

    prompt_id: str
    make: Callable[[str], Prompt]
    text: str
    tokens: int
    seed: str

    def draft(self, text: str) -> Draft:
        """Return the prompt with ``text`` in it."""
        return Draft(prompt_id=self.prompt_id, prompt=self.make(text), prompt_tokens=self.tokens)


def verified(source: Source, fitted: list[Fitted]) -> list[Draft]:
    """Check token counts against the server: all of a small set, a spread sample of a large one.

    One wrong count in the sample and every prompt is counted and repaired. A counter that runs what it
    counts would put measured prompts into the cache: there, the sample's exactness shows in the run's usage.
    """
    if source.fitter.sends_prompts:
        return [item.draft(item.text) for item in fitted]
    if len(fitted) > VERIFY_ALL and _sample_is_exact(source.fitter, fitted):
        return [item.draft(item.text) for item in fitted]
    return [item.draft(source.fitter.repair(item.make, item.text, item.tokens, item.seed)) for item in fitted]


def _sample_is_exact(fitter: Fitter, fitted: list[Fitted]) -> bool:
    step = max(1, len(fitted) // VERIFY_SAMPLE)
    sample = [*fitted[::step], fitted[-1]]
    return all(fitter.count(item.make(item.text)) == item.tokens for item in sample)


def need(value: int, name: str, kind: str) -> int:
    """Return ``value``.

    Raises:
        SpecError: it is 0, and this kind of prompt cannot do without it.
    """
    if value < 1:
        raise SpecError(f"prompt kind '{kind}' needs {name} > 0")
    return value
