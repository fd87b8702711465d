# SPDX-License-Identifier: Apache-2.0
"""Undo what a log went through: colours, rewritten lines, JSON records, hard wrapping, unknown prefixes."""

import itertools
import json
import os.path
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Numbered = tuple[int, str]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")
# Where records of docker, Google's and Datadog's platforms, Loki, journald and structlog keep the text.
_TEXT_KEYS = ("log", "message", "msg", "textPayload", "line", "MESSAGE", "event", "body")
_NESTED_KEYS = ("jsonPayload", "attributes", "fields")
# What vLLM itself begins a line with; whatever stands before it was put there by somebody else.
_OWN_START = re.compile(
    r"\([A-Za-z][\w.:-]*(?: [\w=]+,?)*? pid=\d+"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d"
)
_VARIES = re.compile(
    r"\d+|\b(?:debug|info|notice|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal)\b|[ \t]+(?!$)", re.I
)
_MOST_PREFIX_CHARACTERS = 120
_FEWEST_STAMPED = 3
_FEWEST_ALIKE = 8
_SHARE_OF_STAMPED = 0.8
# Terminals are between so many columns wide; a log that is not wrapped has lines far longer than that.
_COLUMNS = range(30, 251)
_FEWEST_CUTS = 3


def uncarried(log_text: str, strip_known: Callable[[str], str]) -> tuple[Numbered, ...]:
    """Return the lines as vLLM wrote them, numbered from 1 as they stand in ``log_text``.

    ``strip_known`` takes the prefixes of known platforms off a line; what it leaves in front of vLLM's own
    prefix, the same in nearly every line but for its digits, is taken off as well.
    """
    return _without_prefix(_rejoined(tuple(_records(log_text))), strip_known)


def _records(log_text: str) -> Iterator[Numbered]:
    for number, raw in enumerate(log_text.split("\n"), 1):
        text = _last_state(_ANSI.sub("", raw))
        for line in _unwrap_json(text).split("\n"):
            yield number, line


def _last_state(raw: str) -> str:
    """Return what a terminal would show of a line that was rewritten with carriage returns."""
    return next((part for part in reversed(raw.split("\r")) if part.strip()), "")


def _unwrap_json(text: str) -> str:
    """Return the message of a JSON record, which may have several lines; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        data = json.loads(text)
    except ValueError:
        return text
    message = _message(data)
    return text if message is None else _ANSI.sub("", message.rstrip("\n"))


def _message(data: Any) -> str | None:
    if not isinstance(data, dict):
        return None
    texts = [data[key] for key in _TEXT_KEYS if isinstance(data.get(key), str)]
    if not texts:
        return next((found for key in _NESTED_KEYS if (found := _message(data.get(key)))), None)
    # Python's own JSON formatters keep the traceback apart from the message.
    traceback = next((data[key] for key in ("exc_info", "exception") if isinstance(data.get(key), str)), None)
    return texts[0] if traceback is None else f"{texts[0].rstrip()}\n{traceback}"


def _rejoined(lines: tuple[Numbered, ...]) -> tuple[Numbered, ...]:
    """Join what a terminal cut at its right edge, inside words too; a log without an edge stays as it is."""
    width = max((len(text) for _, text in lines), default=0)
    cuts = sum(
        len(text) == width and not _OWN_START.match(after)
        for (_, text), (_, after) in itertools.pairwise(lines)
    )
    if width not in _COLUMNS or cuts < _FEWEST_CUTS:
        return lines
    joined: list[Numbered] = []
    is_cut = False
    for number, text in lines:
        if is_cut and not _OWN_START.match(text):
            joined[-1] = (joined[-1][0], joined[-1][1] + text)
        else:
            joined.append((number, text))
        is_cut = len(text) == width
    return tuple(joined)


def _without_prefix(lines: Sequence[Numbered], strip_known: Callable[[str], str]) -> tuple[Numbered, ...]:
    prefixes = [
        text[: found.start()]
        for _, text in lines
        if (found := _OWN_START.search(text[:_MOST_PREFIX_CHARACTERS])) is not None
    ]
    if not prefixes:
        return _without_common_beginning(lines)
    templates = Counter(_template(prefix) for prefix in prefixes if strip_known(f"{prefix}x") != "x")
    if not templates:
        return tuple(lines)
    template, count = templates.most_common(1)[0]
    if count < max(_FEWEST_STAMPED, _SHARE_OF_STAMPED * len(prefixes)):
        return tuple(lines)
    pattern = re.compile(template)
    return tuple((number, pattern.sub("", text, count=1)) for number, text in lines)


def _without_common_beginning(lines: Sequence[Numbered]) -> tuple[Numbered, ...]:
    """Take off what every line of a log without any prefix of vLLM's begins with: a usage text, for one."""
    texts = [text for _, text in lines if text.strip()]
    common = os.path.commonprefix(texts) if len(texts) >= _FEWEST_ALIKE else ""  # noqa: RUF071 - no paths
    found = re.match(r".*[^\w\s'\"(] ?", common)
    return tuple((number, text.removeprefix(found[0]) if found else text) for number, text in lines)


def _template(prefix: str) -> str:
    """Return a pattern for prefixes like this one: other digits, levels and padding, the same indentation."""
    parts, end = ["^"], 0
    for found in _VARIES.finditer(prefix):
        parts.append(re.escape(prefix[end : found.start()]))
        parts.append(r"\d+" if found[0].isdigit() else r"\w+" if found[0].strip() else r"[ \t]+")
        end = found.end()
    return "".join([*parts, re.escape(prefix[end:])])
