# SPDX-License-Identifier: Apache-2.0
"""What a misbehaviour is: exact bytes, when they go out, how they are framed and how they end."""

from dataclasses import dataclass
from typing import Literal

Framing = Literal["chunked", "length", "close"]
End = Literal["clean", "fin", "reset", "stall"]
Scope = Literal["generation", "v1", "metrics", "all"]

EVENTS = (("content-type", "text/event-stream; charset=utf-8"),)
JSON = (("content-type", "application/json"),)
HTML = (("content-type", "text/html"),)
TEXT = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write: ``data`` goes out ``at_ms`` after the request was read, and carries ``tokens`` tokens."""

    at_ms: float
    data: bytes
    tokens: int = 0
    answer: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One case.

    ``framing`` says how the body's end is told: chunked, Content-Length, or closing. ``end``: as framing
    says (``clean``), by FIN before that, by RST, or never. The head goes out with the first step, or at
    ``head_ms``. ``scope``: the requests it answers (generation, all of ``/v1``, ``/metrics``, everything).
    """

    id: str
    title: str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = EVENTS
    steps: tuple[Step, ...] = ()
    framing: Framing = "chunked"
    end: End = "clean"
    end_ms: float | None = None
    head_ms: float | None = None
    scope: Scope = "generation"

    @property
    def body(self) -> bytes:
        """Return all bytes of the body."""
        return b"".join(step.data for step in self.steps)


def answer(
    id: str,
    title: str,
    status: int,
    body: str,
    *,
    headers: tuple[tuple[str, str], ...] = JSON,
    scope: Scope = "generation",
) -> Fault:
    """Return a case that is one whole answer."""
    steps = (Step(at_ms=0.0, data=body.encode()),) if body else ()
    return Fault(
        id=id, title=title, status=status, headers=headers, steps=steps, framing="length", scope=scope
    )
