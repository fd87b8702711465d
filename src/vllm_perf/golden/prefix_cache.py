# SPDX-License-Identifier: Apache-2.0
"""A prefix cache as vLLM's: whole blocks of tokens, found by a chain of hashes, oldest use out first."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence


class PrefixCache:
    """Remember blocks of prompts; ``blocks`` bounds how many."""

    def __init__(self, block_size: int, blocks: int) -> None:
        """Start cold."""
        self._block_size = block_size
        self._blocks = blocks
        self._known: OrderedDict[int, None] = OrderedDict()

    def take(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens were cached, and cache all whole blocks.

        The last token is never a hit: the engine must compute one to sample from.
        """
        keys = list(self._keys(tokens))
        hits = 0
        for key in keys[: (len(tokens) - 1) // self._block_size]:
            if key not in self._known:
                break
            hits += 1
        for key in keys:
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self._blocks:
            self._known.popitem(last=False)
        return hits * self._block_size

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def _keys(self, tokens: Sequence[int]) -> Iterator[int]:
        key, size = 0, self._block_size
        for start in range(0, len(tokens) - size + 1, size):
            key = hash((key, *tokens[start : start + size]))
            yield key
