# SPDX-License-Identifier: Apache-2.0
"""Tell from a log how far a server came: still booting, serving, stopped on request, or dead."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vllm_perf.diagnosis.logtext import Line

_SERVING = re.compile(r"Application startup complete|Uvicorn running on")
_STOP_ASKED = re.compile(
    r"\[shutdown\] (?:API server: shutdown triggered|EngineCore: trigger received|.*received signal)"
    r"|Shutting down FastAPI HTTP server|Received signal \d+|^Shutting"
    r" down$|KeyboardInterrupt|received SIG(?:TERM|INT)"
    r"|Gracefully stopping"
)
# What only a process that is going down, or whose engine has gone down, says.
_FATAL = re.compile(
    r"EngineDeadError|EngineCore encountered (?:an issue|a fatal error)|Engine core process .*died"
    r"|Worker proc \S+ died unexpectedly|Engine core proc \S+ died|EngineCore failed to"
    r" start|WorkerProc failed to start"
    r"|Engine core initialization failed|Engine process failed to start|Background loop has errored already"
    r"|AsyncEngineDeadError|MQEngineDeadError|Engine loop has died|MQLLMEngine is already dead|Fatal"
    r" Python error"
    r"|terminate called after throwing|\[Errno 98\]|Segmentation fault|Engine (?:core )?died"
    r"|ERROR: Exception in lifespan|Application startup failed"
    # What a shell says of a program that a signal ended.
    r"|^Killed$|^Bus error|\bline \d+:\s+\d+ (?:Killed|Aborted|Segmentation fault|Bus error)"
)
# A process vanished; exceptions that follow are only how the others noticed. vLLM 0.32 says it of the engine
# in a warning, and then leaves with exit code 0.
_GONE = re.compile(
    r"engine core exited unexpectedly|Worker proc \S+ died unexpectedly|Engine core proc(?:ess)?"
    r" .*died unexpectedly"
)
_OF_REQUESTS = re.compile(r"\s*(?:Received request|Generated response|Added request)\b")
_WAITING = re.compile(r"Waiting for \d+ (?:local, \d+ remote )?core engine proc\(?s?\)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootState:
    """Line numbers of what happened; ``None`` where it did not."""

    serving_at: int | None
    stop_asked_at: int | None
    fatal_at: int | None
    gone_at: int | None
    waiting_at: int | None
    last: Line | None

    @property
    def stopped_on_request(self) -> bool:
        """Tell whether it was asked to stop before anything went wrong; what follows does not count."""
        if self.stop_asked_at is None:
            return False
        return self.fatal_at is None or self.stop_asked_at < self.fatal_at

    @property
    def fatal(self) -> bool:
        """Tell whether something fatal was logged before anybody asked for a stop."""
        return self.fatal_at is not None and not self.stopped_on_request


def read_state(lines: Sequence[Line]) -> BootState:
    """Read how far the boot came."""
    # Logged prompts and answers may say anything.
    lines = [line for line in lines if not _OF_REQUESTS.match(line.text)]
    meaningful = [line for line in lines if line.text.strip()]
    return BootState(
        serving_at=_first(_SERVING, lines),
        stop_asked_at=_first(_STOP_ASKED, lines),
        fatal_at=next((line.number for line in lines if _is_fatal(line)), None),
        gone_at=_first(_GONE, lines),
        waiting_at=_last(_WAITING, lines),
        last=meaningful[-1] if meaningful else None,
    )


def _is_fatal(line: Line) -> bool:
    if _GONE.search(line.text):
        return True
    return line.level not in ("INFO", "DEBUG", "WARNING") and _FATAL.search(line.text) is not None


def _first(pattern: re.Pattern[str], lines: Sequence[Line]) -> int | None:
    return next((line.number for line in lines if pattern.search(line.text)), None)


def _last(pattern: re.Pattern[str], lines: Sequence[Line]) -> int | None:
    return next((line.number for line in reversed(lines) if pattern.search(line.text)), None)
