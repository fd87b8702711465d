# SPDX-License-Identifier: Apache-2.0
"""Make text that brings a prompt to an exact token count, and check that it did."""

import random
from collections.abc import Callable, Sequence

from vllm_perf.load.counting import CountRefused, Message, Prompt, TokenCounter
from vllm_perf.load.lexicon import Lexicon, candidates, learn
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import Endpoint

REPAIRS = 6
CANDIDATES_IF_SENT = 64


class Fitter:
    """Hold what one server's tokenizer taught: word costs, and what its chat template adds."""

    def __init__(self, counter: TokenCounter, endpoint: Endpoint) -> None:
        self._counter = counter
        self.endpoint = endpoint
        self.sends_prompts = counter.sends_prompts
        self.lexicon = self._learn()
        self.has_system = endpoint == "chat" and self._takes_system_role()

    def prompt(self, system: str, user: str) -> Prompt:
        """Return the prompt with ``system`` first: in a role of its own where the template has one."""
        if self.endpoint == "completions" or not self.has_system:
            return self._user(f"{system} {user}" if system and user else system or user)
        return [_message("system", system), _message("user", user)] if system else self._user(user)

    def count(self, prompt: Prompt) -> int:
        """Return the tokens of a whole prompt."""
        return self._counter.count(prompt)

    def filler(self, base: int, extra: Sequence[str], tokens: int, seed: str) -> list[str]:
        """Return the words that bring a prompt of ``base`` tokens plus ``extra`` to ``tokens`` tokens.

        Raises:
            SpecError: the template and the first words alone are longer than that.
        """
        spent = base + self.lexicon.cost(extra)
        if spent > tokens:
            raise SpecError(f"a prompt of {tokens} tokens is too short: its template alone takes {spent}")
        return self.lexicon.fill(tokens - spent, random.Random(seed))

    def repair(self, make: Callable[[str], Prompt], text: str, tokens: int, seed: str) -> str:
        """Return ``text``, changed at its end until ``make(text)`` really has ``tokens`` tokens.

        Raises:
            SpecError: it could not be brought there.
        """
        rng = random.Random(seed + ":repair")
        for _ in range(REPAIRS):
            seen = self._counter.count(make(text))
            if seen == tokens:
                return text
            text = self._moved(text, tokens - seen, rng)
        raise SpecError(f"no prompt of exactly {tokens} tokens could be made: the last try had {seen}")

    def system_only(self, text: str) -> int | None:
        """Return the tokens of the system message alone, or ``None`` where it cannot be counted alone."""
        if not self.has_system:
            return None
        try:
            return self._counter.count([_message("system", text)], generation_prompt=False)
        except CountRefused:
            return None

    def _moved(self, text: str, tokens: int, rng: random.Random) -> str:
        words = text.split(" ")
        while tokens < 0 and len(words) > 1:
            word = words.pop()
            tokens += self.lexicon.costs.get(word, 1)
        return " ".join([*words, *self.lexicon.fill(max(tokens, 0), rng)])

    def _user(self, text: str) -> Prompt:
        return text if self.endpoint == "completions" else [_message("user", text)]

    def _learn(self) -> Lexicon:
        words = candidates()
        base = self._counter.count(self._user(words[0]))

        def measure(group: Sequence[str]) -> int:
            return self._counter.count(self._user(" ".join([words[0], *group]))) - base

        return learn(measure, words[:CANDIDATES_IF_SENT] if self._counter.sends_prompts else words)

    def _takes_system_role(self) -> bool:
        """Try it: some templates (Gemma 2) answer 400 to a system message."""
        word = self.lexicon.words[0]
        try:
            self._counter.count([_message("system", word), _message("user", word)])
        except CountRefused as error:
            if error.status is not None and 400 <= error.status < 500:
                return False
            raise
        return True


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
