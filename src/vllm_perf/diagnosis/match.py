# SPDX-License-Identifier: Apache-2.0
"""Find the first root cause among the errors of a log."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vllm_perf.diagnosis.errortext import ErrorText, squeezed
from vllm_perf.diagnosis.logtext import Line
from vllm_perf.diagnosis.signatures import SIGNATURES
from vllm_perf.diagnosis.signatures.signature import Signature

_LEAVING = re.compile(r"shut(?:ting)? ?down|exiting|terminat|destroy_process_group|leaked", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A signature found in lines ``number`` to ``end``; ``recovered``: its process went on working."""

    signature: Signature
    found: re.Match[str]
    number: int
    end: int
    process: str
    recovered: bool


def find_root(errors: Sequence[ErrorText], lines: Sequence[Line], *, died: bool) -> Hit | None:
    """Return the first root cause, or ``None`` where no signature matches.

    Signatures that are usually the last word are preferred to weak ones, and errors that their process
    survived are left out, unless the server ``died`` and there is nothing else.
    """
    hits = sorted(_hits(errors, lines), key=lambda hit: hit.number)
    living = [hit for hit in hits if not hit.recovered]
    for candidates in (living, hits if died else []):
        for weak in (False, True):
            first = next((hit for hit in candidates if hit.signature.weak is weak), None)
            if first is not None:
                return first
    return None


def _hits(errors: Sequence[ErrorText], lines: Sequence[Line]) -> Iterable[Hit]:
    last_work = _last_work(lines)
    for error in errors:
        found = list(_search(error, Signature.spaced)) or list(_search(squeezed(error), Signature.squeezed))
        for signature, match, number, end in found:
            yield Hit(
                signature=signature,
                found=match,
                number=number,
                end=end,
                process=error.process,
                # Without process names an INFO line may be anybody's, so it proves nothing.
                recovered=bool(error.process) and last_work.get(error.process, 0) > number,
            )


def _search(
    error: ErrorText, compiled: Callable[[Signature], re.Pattern[str]]
) -> Iterable[tuple[Signature, re.Match[str], int, int]]:
    for signature in SIGNATURES:
        match = compiled(signature).search(error.text)
        if match:
            last = max(match.start(), match.end() - 1)
            yield signature, match, error.number_at(match.start()), error.number_at(last)


def _last_work(lines: Sequence[Line]) -> dict[str, int]:
    """Return for each process the line of its last sign of work that is not a sign of leaving."""
    return {
        line.process: line.number
        for line in lines
        if line.level in ("INFO", "DEBUG") and not _LEAVING.search(line.text)
    }
