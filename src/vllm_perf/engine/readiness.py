# SPDX-License-Identifier: Apache-2.0
"""Wait until an engine is ready, or dead, or late: whichever comes first, seen within a second.

Ready means: our own process owns the port, ``/health`` answers, the model is served, one token completes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vllm_perf.engine.http import Answer, ask
from vllm_perf.engine.tree import port_owners

POLL_S = 0.25
HEALTH_TIMEOUT_S = 1.0  # whoever holds the port may stay silent; a death must be seen within 2 s meanwhile
Progress = Callable[[str, float], None]


class Watched(Protocol):
    """What is waited for: the part of EngineProcess that readiness needs."""

    port: int

    def look(self) -> int | None:
        """Return the exit code, or ``None`` while it runs."""

    @property
    def pids(self) -> frozenset[int]:
        """Return the pids of the tree."""


class Died(Exception):
    """Report that the server exited before it was ready; ``exit_code`` may be 0 as well."""

    def __init__(self, exit_code: int, elapsed_s: float) -> None:
        """Keep code and time."""
        super().__init__(f"exited with code {exit_code} after {elapsed_s:.0f} s")
        self.exit_code = exit_code
        self.elapsed_s = elapsed_s


class TooLate(Exception):
    """Report that the server was still not ready at the deadline; ``last`` is the step it had reached."""

    def __init__(self, last: str, elapsed_s: float) -> None:
        """Keep the step and the time."""
        super().__init__(f"not ready after {elapsed_s:.0f} s; last: {last}")
        self.last = last
        self.elapsed_s = elapsed_s


class ForeignServer(Exception):
    """Report that another process answers on the engine's port."""


class KeyRefused(Exception):
    """Report that the server is up and refuses the key that the engine's data says: waiting will not help."""

    def __init__(self, answer: Answer, url: str) -> None:
        """Keep what it answered."""
        super().__init__(f"it answers {answer.status} to its own key")
        self.answer = answer
        self.url = url


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyTimes:
    """How long it took, seconds from the start: health, and the first completed token."""

    healthy_s: float
    first_token_s: float
    first_request_ms: float


def wait_until_ready(
    process: Watched, model: str, *, key: str | None, timeout_s: float, progress: Progress
) -> ReadyTimes:
    """Block until ready.

    Raises:
        Died: the process ended, with whatever code.
        TooLate: ``timeout_s`` passed.
        ForeignServer: someone else owns the port.
        KeyRefused: it wants another key.
    """
    started = time.monotonic()
    root = f"http://127.0.0.1:{process.port}"
    healthy_s: float | None = None
    step = "waiting for the port"
    while True:
        elapsed = time.monotonic() - started
        code = process.look()
        if code is not None:
            raise Died(code, elapsed)
        if elapsed > timeout_s:
            raise TooLate(step, elapsed)
        progress(step, elapsed)
        if ask(f"{root}/health", timeout_s=HEALTH_TIMEOUT_S).ok:
            _require_own_port(process)
            healthy_s = time.monotonic() - started if healthy_s is None else healthy_s
            step = "waiting for the first token"
            took_ms = _first_token(root, model, key, timeout_s=min(60.0, max(1.0, timeout_s - elapsed)))
            if took_ms is not None:
                now = time.monotonic() - started
                return ReadyTimes(healthy_s=healthy_s, first_token_s=now, first_request_ms=took_ms)
        time.sleep(POLL_S)


def _require_own_port(process: Watched) -> None:
    owners = port_owners(process.port)
    if owners and not owners & process.pids:
        raise ForeignServer(f"port {process.port} is owned by pid {sorted(owners)}, not by the booted engine")


def _first_token(root: str, model: str, key: str | None, timeout_s: float) -> float | None:
    """Complete one token; return how long it took in ms, or ``None`` when it did not work yet."""
    body = {"model": model, "prompt": "a", "max_tokens": 1, "temperature": 0}
    started = time.perf_counter_ns()
    url = f"{root}/v1/completions"
    answer = ask(url, payload=body, key=key, timeout_s=timeout_s)
    if answer.status in (401, 403):
        raise KeyRefused(answer, url)
    if answer.ok and (answer.json() or {}).get("choices"):
        return (time.perf_counter_ns() - started) / 1e6
    return None
