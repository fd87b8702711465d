# SPDX-License-Identifier: Apache-2.0
"""Why a run gives no verdict: the codes, one reason, and what is known about a run from outside it."""

from dataclasses import dataclass
from enum import StrEnum


class InvalidCode(StrEnum):
    """Name one way in which a run is not worth judging; each is a line of docs/metrics.md."""

    NOTHING_SENT = "NOTHING_SENT"
    TOO_MANY_FAILED = "TOO_MANY_FAILED"
    TOO_FEW_SAMPLES = "TOO_FEW_SAMPLES"
    PROMPT_LENGTH = "PROMPT_LENGTH"
    OUTPUT_LENGTH = "OUTPUT_LENGTH"
    GENERATOR_LATE = "GENERATOR_LATE"
    RATE_NOT_REACHED = "RATE_NOT_REACHED"
    CONCURRENCY_NOT_REACHED = "CONCURRENCY_NOT_REACHED"
    CLIENT_STARVED = "CLIENT_STARVED"
    CLIENT_FLOOR = "CLIENT_FLOOR"
    STREAM_BUFFERED = "STREAM_BUFFERED"
    TIMES_CONTRADICT = "TIMES_CONTRADICT"
    HIT_RATE = "HIT_RATE"
    FOREIGN_TRAFFIC = "FOREIGN_TRAFFIC"
    LOST_REQUESTS = "LOST_REQUESTS"
    SERVER_RESTARTED = "SERVER_RESTARTED"
    CACHES_NOT_RESET = "CACHES_NOT_RESET"
    WARMUP_SHARES_PROMPTS = "WARMUP_SHARES_PROMPTS"
    ENGINE_NOT_AS_ASKED = "ENGINE_NOT_AS_ASKED"
    GPU = "GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidReason:
    """One reason for no verdict: ``sentence`` says what was seen, with numbers; ``remedy`` what to do."""

    code: InvalidCode
    sentence: str
    remedy: str

    def __str__(self) -> str:
        """Return the line a user reads."""
        return f"{self.code}: {self.sentence}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What others found out about a run; ``None`` and empty mean "not looked at".

    ``floor_ms`` is the TTFT that the client itself adds at this concurrency (golden engine), ``budget_ms``
    the tightest TTFT limit asserted on the run. ``asserted`` names the metrics a verdict is wanted on.
    ``prefix_caching``: whether the engine really caches prefixes (``False`` lifts the hit-rate band).
    ``engine_problems`` and ``gpu_problems`` are sentences: what the engine runs differently from what was
    asked; throttling, other processes, clocks. ``allow_buffered`` accepts a path that buffers streams.
    ``hit_rate_hidden``: a server of someone else's that need not tell its cache's hit rate.
    """

    floor_ms: float | None = None
    budget_ms: float | None = None
    asserted: tuple[str, ...] = ()
    prefix_caching: bool | None = None
    engine_problems: tuple[str, ...] = ()
    gpu_problems: tuple[str, ...] = ()
    allow_buffered: bool = False
    hit_rate_hidden: bool = False
