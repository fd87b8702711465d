# SPDX-License-Identifier: Apache-2.0
"""Reduce a boot log to what its processes complained about: messages of exceptions, not source lines."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vllm_perf.diagnosis.logtext import Line

# A statement that begins without vLLM's prefix, as Python, argparse and C++ write them.
_ERROR_START = re.compile(
    r"Traceback \(most recent call last\)|usage: |[\w.-]+: error: |error:"
    r" |(?:[\w]+\.)*[A-Z]\w*(?:Error|Exception|Exit)\b"
    r"|The above exception was|During handling of the above|Process \S+:$|\[E\d{4} |Fatal Python error"
    r"|terminate called|Exception: |Segmentation fault|Bus error|Killed\b|KeyboardInterrupt"
)
_WARNING_START = re.compile(r"\S+\.py:\d+: \w*Warning: |\[[WI](?:\d{4})? |Warning: |\w*Warning: ")
EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: |$|\()|Exception: "
)
_FRAME = re.compile(r'\s+File "')
# Here a variable of the environment is read: its name stands in the source line, and nowhere else.
_TELLING_FRAME = re.compile(r'vllm/envs\.py", line \d+')
# Errors that only say that another process failed; the cause stands above them.
WRAPPER = re.compile(
    r"Engine core initialization failed|Engine process failed to start|EngineCore failed to start"
    r"|WorkerProc initialization failed|WorkerProc failed to start|Worker failed with error"
    r"|EngineCore encountered an issue|EngineDeadError|See root cause above|See stack trace"
    r"|EngineCore encountered a fatal error|Worker proc .* died|EngineCore died"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorText:
    """What one process complained about: its message lines joined, with the way back to line numbers."""

    process: str
    text: str
    starts: tuple[int, ...]
    numbers: tuple[int, ...]

    def number_at(self, offset: int) -> int:
        """Return the log's line number of the character at ``offset``."""
        return self.numbers[bisect_right(self.starts, offset) - 1]


def error_lines(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return the lines that belong to errors: no INFO, no warnings, of tracebacks only telling frames."""
    kept: list[Line] = []
    # Per process: whether the last statement was an error, and whether we stand inside a traceback's frames.
    is_error: dict[str, bool] = {}
    in_frames: dict[str, bool] = {}
    frame: dict[str, list[Line]] = {}
    for line in _without_ignored(lines):
        process, text = line.process, line.text
        is_error[process] = _is_error(line, is_error.get(process, True))
        if text.lstrip().startswith("Traceback (most recent call last)"):
            in_frames[process] = True
            continue
        if in_frames.get(process) and text[:1].isspace():
            # Only the innermost frame may say more than the exception itself.
            frame[process] = [line] if _FRAME.match(text) else [*frame.get(process, []), line]
            continue
        innermost = frame.pop(process, [])
        if innermost and is_error[process] and _TELLING_FRAME.search(innermost[0].text):
            kept.extend(innermost)
        in_frames[process] = False
        if is_error[process]:
            kept.append(line)
    return tuple(kept)


def _without_ignored(lines: Sequence[Line]) -> Iterator[Line]:
    """Leave out exceptions in destructors, which end nothing, with their tracebacks."""
    state = ""
    for line in lines:
        if line.text.startswith("Exception ignored "):
            state = "announced"
        elif state == "announced" and line.text.startswith("Traceback"):
            state = "frames"
        elif state == "frames" and not line.text[:1].isspace():
            state = ""  # the exception itself, after its frames
            continue
        elif state == "announced":
            state = ""
        if not state:
            yield line


def _is_error(line: Line, before: bool) -> bool:
    if line.level is not None:
        return line.level in ("ERROR", "CRITICAL")
    if _WARNING_START.match(line.text):
        return False
    return True if _ERROR_START.match(line.text) else before


# A cause stands near the beginning of the complaints: hours of them are not read to the end.
_MAX_LINES = 4000
_MAX_SQUEEZED_LINES = 400


def by_process(lines: Sequence[Line]) -> tuple[ErrorText, ...]:
    """Join ``lines`` per process, in the order in which the processes first complained."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        group = groups.setdefault(line.process, [])
        if len(group) < _MAX_LINES:
            group.append(line)
    return tuple(_joined(process, group) for process, group in groups.items())


def _joined(process: str, lines: Sequence[Line]) -> ErrorText:
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line.text) + 1
    return ErrorText(
        process=process,
        text="\n".join(line.text for line in lines),
        starts=tuple(starts),
        numbers=tuple(line.number for line in lines),
    )


def squeezed(error: ErrorText) -> ErrorText:
    """Return ``error`` without any white space, for messages that a terminal wrapped inside words."""
    texts = ["".join(line.split()) for line in error.text.split("\n")[:_MAX_SQUEEZED_LINES]]
    starts, offset = [], 0
    for text in texts:
        starts.append(offset)
        offset += len(text)
    return ErrorText(
        process=error.process, text="".join(texts), starts=tuple(starts), numbers=error.numbers[: len(texts)]
    )


def first_exceptions(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return the lines that name an exception and are not mere wrappers, in order, repeats left out."""
    seen: set[str] = set()
    found: list[Line] = []
    for line in lines:
        if EXCEPTION.match(line.text) and not WRAPPER.search(line.text) and line.text not in seen:
            seen.add(line.text)
            found.append(line)
    return tuple(found)
