# SPDX-License-Identifier: Apache-2.0
"""What the golden engine really did: the time of every write, by request id."""

import json
from array import array
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class Record:
    """One request; all ``*_ns`` are ``perf_counter_ns``, taken right before the write.

    ``received_ns`` is when the kernel took in the request's last byte, where it says, else after the read.
    ``sent_ns`` and ``tokens`` are one a chunk with payload. ``answer_index`` is the first chunk of the answer
    proper. ``blocked``: writes the socket did not take at once, whose stamp is therefore early.
    """

    id: str
    received_ns: int
    scheduled_ns: int | None = None
    role_ns: int | None = None
    sent_ns: "array[int]" = field(default_factory=lambda: array("q"))
    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    answer_index: int | None = None
    ended_ns: int | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    finish: str | None = None
    fault: str | None = None
    blocked: int = 0

    @property
    def output_tokens(self) -> int:
        """Return the tokens written so far."""
        return sum(self.tokens)

    @property
    def first_token_ns(self) -> int | None:
        """Return when the first token was written."""
        return self.sent_ns[0] if self.sent_ns else None

    @property
    def last_token_ns(self) -> int | None:
        """Return when the last token was written."""
        return self.sent_ns[-1] if self.sent_ns else None

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return {
            "id": self.id,
            "received_ns": self.received_ns,
            "scheduled_ns": self.scheduled_ns,
            "role_ns": self.role_ns,
            "sent_ns": list(self.sent_ns),
            "tokens": list(self.tokens),
            "answer_index": self.answer_index,
            "ended_ns": self.ended_ns,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
            "finish": self.finish,
            "fault": self.fault,
            "blocked": self.blocked,
        }


class Records:
    """All records in order of arrival; the latest of an id wins."""

    def __init__(self) -> None:
        """Hold none."""
        self._by_id: dict[str, Record] = {}
        self.peak_in_flight = 0

    def add(self, record: Record) -> None:
        """Keep ``record``."""
        self._by_id[record.id] = record

    def get(self, request_id: str) -> Record | None:
        """Return the record of ``X-Request-Id``, if there is one."""
        return self._by_id.get(request_id)

    def all(self) -> tuple[Record, ...]:
        """Return every record."""
        return tuple(self._by_id.values())

    def clear(self) -> None:
        """Forget every record."""
        self._by_id.clear()
        self.peak_in_flight = 0

    def dump(self) -> bytes:
        """Return JSON lines."""
        return b"".join(json.dumps(r.to_json(), separators=(",", ":")).encode() + b"\n" for r in self.all())
