# SPDX-License-Identifier: Apache-2.0
"""Token counters with a known tokenizer, which remember what they were asked."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vllm_perf.load.counting import CountRefused, Prompt

Cost = Callable[[str], int]


def one_a_word(_word: str) -> int:
    """Cost of a tokenizer that knows every word."""
    return 1


def one_a_letter(word: str) -> int:
    """Cost of a tokenizer that knows single bytes only; the space before a word is one of them."""
    return len(word)


@dataclass
class FakeCounter:
    """Count ``<s>``, and per message a role token and an end token, plus the words by ``cost``.

    ``system_role=False`` refuses system messages as Gemma's template does. ``default_system`` is what the
    template writes where no system message is given. ``quirk`` tokens come on top of prompts whose text
    holds the word "ba", which no arithmetic over words can foresee.
    """

    cost: Cost = one_a_word
    system_role: bool = True
    default_system: str = ""
    quirk: int = 0
    sends_prompts: bool = False
    asked: list[str] = field(default_factory=list)

    def count(self, prompt: Prompt, *, generation_prompt: bool = True) -> int:
        """Return the tokens of ``prompt``."""
        self.asked.append(json.dumps(prompt))
        if isinstance(prompt, str):
            return 1 + self._text(prompt)
        messages = list(prompt)
        if any(message["role"] == "system" for message in messages) and not self.system_role:
            raise CountRefused("System role not supported", 400)
        if self.default_system and messages[0]["role"] != "system":
            messages.insert(0, {"role": "system", "content": self.default_system})
        inner = sum(2 + self._text(str(message["content"])) for message in messages)
        return 1 + inner + (1 if generation_prompt else 0)

    def _text(self, text: str) -> int:
        pieces = re.findall(r" ?[^ ]+", text)
        extra = self.quirk if "ba" in text.split(" ") else 0
        return sum(self.cost(piece) for piece in pieces) + extra


def texts(prompt: Prompt) -> str:
    """Return all text of a prompt, messages joined by a bar."""
    return prompt if isinstance(prompt, str) else "|".join(str(message["content"]) for message in prompt)


def starts(prompts: Sequence[Prompt]) -> set[str]:
    """Return the first words of prompts."""
    return {texts(prompt).split(" ")[0].split("|")[0] for prompt in prompts}
