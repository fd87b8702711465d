# SPDX-License-Identifier: Apache-2.0
"""Quote a log: the lines that carry a cause, or its last meaningful ones."""

from collections.abc import Sequence

from vllm_perf.diagnosis.logtext import Line

_TAIL_LINES = 5
_MAX_CHARACTERS = 600


def quote(lines: Sequence[Line], number: int, end: int | None = None) -> str:
    """Return what the process of line ``number`` wrote from there to line ``end``, with its place."""
    first = next(line for line in lines if line.number == number)
    last = number if end is None else end
    said = [
        line.text.strip() for line in lines if number <= line.number <= last and line.process == first.process
    ]
    who = f"{first.process}, " if first.process else ""
    return f"{who}line {number}: {' '.join(said)}"


def tail(lines: Sequence[Line]) -> str:
    """Return the last meaningful lines in one."""
    said = " | ".join(line.text.strip() for line in lines[-_TAIL_LINES:])
    return f"last lines of the log: {said or '(the log is empty)'}"


def shortened(text: str) -> str:
    """Return ``text`` cut to what a paragraph can hold."""
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"
