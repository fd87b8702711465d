# SPDX-License-Identifier: Apache-2.0
"""A tokenizer that anyone can count by hand: one token a word, a fixed number for the chat template."""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

NUMBERED = re.compile(r"t(\d{1,5})\Z")
NUMBERED_TOKENS = 100_000
HASHED_TOKENS = 50_000
MESSAGE_START = 199_990
MESSAGE_END = 199_991
ROLES = {"system": 199_992, "user": 199_993, "assistant": 199_994, "tool": 199_995}
OTHER_ROLE = 199_996
MESSAGE_OVERHEAD = 3
GENERATION_OVERHEAD = 2


class Tokenizer:
    """Map words to ids and back; ``t123`` is id 123, any other word a hash above ``NUMBERED_TOKENS``."""

    def __init__(self) -> None:
        """Know no word yet."""
        self._words: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        """Return one id a whitespace-separated word."""
        return [self._id(word) for word in text.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the words; an id that was never seen as a word is written ``t<id>``."""
        return " ".join(self._words.get(token, f"t{token}") for token in tokens)

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> list[int]:
        """Return the ids of a conversation: 3 more a message than its words, and 2 to open the answer."""
        tokens: list[int] = []
        for message in messages:
            tokens += [MESSAGE_START, ROLES.get(str(message.get("role")), OTHER_ROLE)]
            tokens += self.encode(_text(message.get("content")))
            tokens.append(MESSAGE_END)
        return [*tokens, MESSAGE_START, ROLES["assistant"]] if add_generation_prompt else tokens

    def _id(self, word: str) -> int:
        numbered = NUMBERED.match(word)
        if numbered and str(int(numbered[1])) == numbered[1]:
            return int(numbered[1])
        token = NUMBERED_TOKENS + zlib.crc32(word.encode()) % HASHED_TOKENS
        self._words.setdefault(token, word)
        return token


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""
