# SPDX-License-Identifier: Apache-2.0
"""The token side of one stream: when chunks with payload arrived, and how many tokens the server counted."""

from array import array
from typing import Any

from vllm_perf.load.chunk import Kind, Usage, kind_of
from vllm_perf.load.sample import TokenSource


class TokenLedger:
    """Collect token arrivals of one stream.

    An empty text is a token that decoded to nothing, or it is a gateway's or the finish chunk's filler. After
    a first token an empty delta without ``role`` is a token. Every other empty text waits in ``maybe_ns``
    until the server's own count decides: one of them wrongly taken for a token would make TTFT too good.
    """

    __slots__ = (
        "_counted",
        "_deltas",
        "_first_count",
        "chunk_ns",
        "finish",
        "first_answer_ns",
        "maybe_ns",
        "usage",
    )

    def __init__(self) -> None:
        """Start with no token."""
        self.chunk_ns: array[int] = array("q")
        self.maybe_ns: array[int] = array("q")
        self.first_answer_ns: int | None = None
        self.usage: Usage | None = None
        self.finish: str | None = None
        self._deltas = 0
        self._counted: int | None = None
        self._first_count: int | None = None

    def take(self, ns: int, choices: list[dict[str, Any]], usage: Usage | None) -> None:
        """Take the choices of one chunk that arrived at ``ns``, and that chunk's usage if it had one."""
        kind = max(kind_of(choice) for choice in choices)
        finish = next((str(c["finish_reason"]) for c in choices if c.get("finish_reason") is not None), None)
        count = None if usage is None else usage.output_tokens
        if Kind.NOTHING < kind < Kind.TOKEN and self._rose(count):
            kind = Kind.TOKEN
        if kind >= Kind.TOKEN:
            self._token(ns, kind, None if finish else count)
        elif kind is Kind.EMPTY and self.chunk_ns and finish is None:
            self.chunk_ns.append(ns)
        elif kind > Kind.NOTHING and self._deltas:
            self.maybe_ns.append(ns)
        self._deltas += 1
        self._counted = self._counted if count is None else count
        self.finish = finish or self.finish

    def settle(self) -> None:
        """Count the doubtful empty chunks as tokens where the server's count says that all of them are."""
        certain, maybe = self.chunk_ns, self.maybe_ns
        if maybe and certain and self.counted == len(certain) + len(maybe):
            if maybe[0] < certain[0]:
                self._first_count = None
            self.chunk_ns = array("q", sorted([*certain, *maybe]))
            self.maybe_ns = array("q")

    @property
    def counted(self) -> int | None:
        """Return the server's count of output tokens; 0 beside tokens that were seen is no count."""
        return (self.usage.output_tokens or None) if self.usage is not None else None

    @property
    def output_tokens(self) -> int | None:
        """Return the server's count, else the number of chunks, else nothing."""
        return self.counted or len(self.chunk_ns) or None

    @property
    def source(self) -> TokenSource | None:
        """Say where ``output_tokens`` comes from."""
        if self.counted:
            return "usage"
        return "estimated" if self.chunk_ns else None

    @property
    def first_chunk_tokens(self) -> int:
        """Return the tokens in the first chunk: known from continuous usage or a lone chunk, else 1."""
        counted = self.counted
        if counted and len(self.chunk_ns) == 1:
            return counted
        if counted and self._first_count and 0 < self._first_count < counted:
            return self._first_count
        return 1

    def _rose(self, count: int | None) -> bool:
        return count is not None and self._counted is not None and count > self._counted

    def _token(self, ns: int, kind: Kind, count: int | None) -> None:
        if not self.chunk_ns and count is not None:
            self._first_count = count - (self._counted or 0)
        self.chunk_ns.append(ns)
        if kind is Kind.ANSWER and self.first_answer_ns is None:
            self.first_answer_ns = ns
