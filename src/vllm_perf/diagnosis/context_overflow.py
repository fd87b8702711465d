# SPDX-License-Identifier: Apache-2.0
"""Read the numbers out of "maximum context length" messages of every vLLM and of OpenAI."""

import re
from dataclasses import dataclass

_LIMIT = re.compile(
    r"(?:maximum (?:context|model) length(?: of the model)?|max_model_len"
    r"|context (?:window|length)(?: limit)?)"
    r"(?: is| of|:|=| \()*\s*(?P<limit>\d[\d,]*)",
    re.IGNORECASE,
)
_REQUESTED = re.compile(
    r"(?:you )?requested(?: about)? (?P<total>\d[\d,]*) (?:output )?tokens"
    r"(?: \((?P<prompt>\d[\d,]*) (?:in|of|from)[^,)]*, (?P<completion>\d[\d,]*))?",
    re.IGNORECASE,
)
_OUTPUT = re.compile(r"requested (?P<completion>\d[\d,]*) output tokens", re.IGNORECASE)
_INPUT = re.compile(
    r"(?:prompt|messages?|input)[^.]{0,40}?(?P<prompt>\d[\d,]*) (?:input )?(?:tokens|characters)"
    r"|\b(?:input|prompt) \(?length(?: of)? (?P<length>\d[\d,]*)",
    re.IGNORECASE,
)
_OLD = re.compile(
    r"'?max_tokens'?(?: or 'max_completion_tokens')? is too large: (?P<completion>\d[\d,]*)"
    r".*?maximum context length is (?P<limit>\d[\d,]*).*?(?:has|contains) (?P<prompt>\d[\d,]*) input tokens",
    re.IGNORECASE | re.DOTALL,
)
_OUTPUT_TOO_LONG = re.compile(
    r"max_tokens=(?P<completion>\d[\d,]*) cannot be greater than max_model_len=(?P<limit>\d[\d,]*)",
    re.IGNORECASE,
)
_PROMPT_TOO_LONG = re.compile(
    r"prompt \(?(?:total )?length(?: of)? (?P<prompt>\d[\d,]*)\)? is (?:longer|greater) than "
    r"the maximum model length(?: of)? (?P<limit>\d[\d,]*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """Tokens: what the model takes, what prompt and completion asked for; ``None`` where not said."""

    limit: int | None
    prompt: int | None
    completion: int | None


def read_overflow(message: str) -> Overflow | None:
    """Return the numbers of a context overflow, or ``None`` where ``message`` speaks of something else."""
    for pattern in (_OLD, _OUTPUT_TOO_LONG, _PROMPT_TOO_LONG):
        found = pattern.search(message)
        if found:
            fields = found.groupdict()
            return Overflow(
                limit=_number(fields.get("limit")),
                prompt=_number(fields.get("prompt")),
                completion=_number(fields.get("completion")),
            )
    limit = _LIMIT.search(message)
    if not limit:
        return None
    return Overflow(limit=_number(limit["limit"]), **_asked(message[limit.end() :]))


def _asked(message: str) -> dict[str, int | None]:
    requested = _REQUESTED.search(message)
    output = _OUTPUT.search(message)
    if output:
        prompt = _INPUT.search(message, output.end())
        return {"prompt": _prompt(prompt), "completion": _number(output["completion"])}
    if requested and requested["prompt"]:
        return {"prompt": _number(requested["prompt"]), "completion": _number(requested["completion"])}
    return {"prompt": _prompt(_INPUT.search(message)), "completion": None}


def _prompt(found: re.Match[str] | None) -> int | None:
    return _number(found["prompt"] or found["length"]) if found else None


def _number(text: str | None) -> int | None:
    return int(text.replace(",", "")) if text else None
