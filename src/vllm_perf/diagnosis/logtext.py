# SPDX-License-Identifier: Apache-2.0
"""Strip the prefixes off a vLLM log, whoever put them there, and say which process wrote each line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vllm_perf.diagnosis.carrier import uncarried

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

# In front of what vLLM wrote: docker-compose, Kubernetes, ISO time stamps of platforms, syslog.
_PLATFORM = re.compile(
    r"(?:[\w.-]+\s*\|\s)"
    r"|(?:\[?\d{4}-\d\d-\d\d[T"
    r" ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s(?:(?:stdout|stderr) [FP]\s)?)"
    r"|(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:\S+ (?!error: |warning: )[\w.@-]+(?:\[\d+\])?: )?)"
    r"|(?:\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s)|(?:\[\s*\d+\.\d+\]\s)"
    r"|(?:\[(?:resource\.labels\.)?[\w.]+: [^\]]*\]\s?)"
    r"|(?:\[(?:Stage-|rank|default)\d+\]:?\s?)"
    r"|(?:\[pod/[^\]]*\]\s)"
)
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.:-]*)(?P<more>(?: [\w]+=[^)\s,]+,?)*?) pid=\d+(?:, ip=[^)]*)?\)\s?"
)
_STAMP = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\s"
    r"(?:\[(?P<source>[^\]\s]+:\d+)\]|(?P<bare>[\w./-]+:\d+)\])\s?"
)
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,10}(?=\S)")
# What native libraries say on their way out; it hides the last words that mean something.
_NOISE = re.compile(
    r"nanobind: |\s*- (?:leaked |\.\.\. skipped)|See https://nanobind|\s*warnings\.warn\(|.*resource_tracker"
)
_PROGRESS = re.compile(r"\d+%\|.*\| *\d+/\d+ \[|\d+% Completed \| *\d+/\d+ \[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a log without its prefixes.

    ``number`` counts from 1 in the original text. ``process`` is ``EngineCore``, ``APIServer``… or "" where
    none was named; a line without any prefix of vLLM's belongs to the process of the line before it
    (``stamped`` is False) and has that line's ``level`` only if it is not a new statement.
    """

    number: int
    process: str
    level: Level | None
    source: str
    text: str
    stamped: bool


def read_lines(log_text: str) -> tuple[Line, ...]:
    """Return the lines of a log; colours, progress bars, empty lines are gone, indentation is kept."""
    return tuple(_lines(log_text))


def _lines(log_text: str) -> Iterator[Line]:
    process = ""
    for number, raw in uncarried(log_text, lambda text: _strip(text)[0]):
        text, found = _strip(raw)
        if _PROGRESS.search(text) or _NOISE.match(text):
            continue
        process = found.process or ("" if found.level else process)
        if text.strip():
            yield Line(
                number=number,
                process=process,
                level=found.level,
                source=found.source,
                text=text.rstrip(),
                stamped=bool(found.level or found.process),
            )


@dataclass(slots=True)
class _Found:
    process: str = ""
    level: Level | None = None
    source: str = ""


def _strip(text: str) -> tuple[str, _Found]:
    found = _Found()
    while True:
        process = _PROCESS.match(text)
        if process:
            # The innermost names the writer: Ray puts its own in front.
            found.process, text = process["name"], text[process.end() :]
            continue
        stamp = _STAMP.match(text)
        if stamp:
            found.level = _level(stamp["level"])
            found.source = stamp["source"] or stamp["bare"]
            return text[stamp.end() :], found
        uvicorn = _UVICORN.match(text)
        if uvicorn:
            found.level = _level(uvicorn["level"])
            return text[uvicorn.end() :], found
        platform = _PLATFORM.match(text)
        if not platform:
            return text, found
        text = text[platform.end() :]


def _level(word: str) -> Level:
    levels: dict[str, Level] = {
        "DEBUG": "DEBUG",
        "INFO": "INFO",
        "WARNING": "WARNING",
        "ERROR": "ERROR",
        "CRITICAL": "CRITICAL",
    }
    return levels[word]
