# SPDX-License-Identifier: Apache-2.0
"""Before a deploy: the quick profile against the last good record of this machine, ending in one word.

GO         every budget holds, and nothing is slower than the record (exit code 0)
NO-GO      a budget failed, something got slower, or the engine does not come up (1)
DON'T KNOW nothing to compare with, a measurement that decides nothing, or a machine in use (10)

Usage: ``python -m vllm_perf.gate.predeploy [pytest options]``, run where ``tests/perf`` is.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

from vllm_perf.gate.against_record import METRICS, Judged, judge, last_good, newest
from vllm_perf.history.collect import probe_hardware
from vllm_perf.history.store import Store, StoreError
from vllm_perf.verdict.types import Change

HISTORY = ".vllm-perf/history"
# One boot against one boot tells a change of 10 % at best, not one of 2 %: that is the gate's business.
ALLOWED = "0.10"
# The machine was not free; that says nothing about what is to be deployed.
IN_USE = ("LAB_BUSY", "GPU_FOREIGN_PROCESS")
KINDS = {"NoVerdict": "no verdict", "LabBroken": "lab broken"}
SHOWN = 8
TO_KNOW = (
    "to know: teach this machine's noise floor (vllm-perf gate with the same engine twice), or say what"
    " change you would mind (--perf-allowed-change 0.2)"
)


class Word(StrEnum):
    """The three answers."""

    GO = "GO"
    NO_GO = "NO-GO"
    DONT_KNOW = "DON'T KNOW"


EXIT_CODES = {Word.GO: 0, Word.NO_GO: 1, Word.DONT_KNOW: 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One test that did not pass, how it ended (``failed``, ``no verdict``, ``lab broken``), and why."""

    test: str
    kind: str
    explanation: str

    @property
    def is_tail(self) -> bool:
        """Tell whether a metric that one boot cannot decide came out slower than the record."""
        found = re.match(r"(\w+)\[[^\]]*\] regressed: ", self.explanation)
        return found is not None and found[1] not in METRICS

    @property
    def in_use(self) -> bool:
        """Tell whether the machine was in use by others."""
        return any(re.search(rf"\b{category}\b", self.explanation) for category in IN_USE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The word and its reasons, most important first."""

    word: Word
    reasons: tuple[str, ...]

    def text(self, took_s: float) -> str:
        """Return what is shown last."""
        rule = "=" * 78
        lines = [f"  - {reason}" for reason in self.reasons[:SHOWN]]
        more = len(self.reasons) - SHOWN
        if more > 0:
            lines.append(f"  - and {more} more, see above")
        return "\n".join([rule, f"{self.word}  (after {took_s:.0f} s)", *lines, rule])


UNTOLD = {
    0: Answer(word=Word.DONT_KNOW, reasons=("nothing was judged",)),
    1: Answer(word=Word.NO_GO, reasons=("a test failed; see above",)),
    10: Answer(word=Word.DONT_KNOW, reasons=("a measurement decides nothing; see above",)),
    11: Answer(word=Word.NO_GO, reasons=("nothing could be measured; see above",)),
}


def decide(code: int, findings: Sequence[Finding], judged: Sequence[Judged]) -> Answer:
    """Return the answer to a run that ended with pytest's exit code ``code``."""
    if code not in UNTOLD:
        return Answer(word=Word.DONT_KNOW, reasons=(f"the run did not finish (exit code {code})",))
    counted = [finding for finding in findings if not finding.is_tail]
    failed, unsure = _told(counted, "failed"), _told(counted, "no verdict")
    broken = [finding for finding in counted if finding.kind == "lab broken"]
    if failed:
        return Answer(word=Word.NO_GO, reasons=failed)
    if broken:
        word = Word.DONT_KNOW if all(finding.in_use for finding in broken) else Word.NO_GO
        return Answer(word=word, reasons=_told(broken, "lab broken"))
    if unsure:
        return Answer(word=Word.DONT_KNOW, reasons=unsure)
    if code != 0 and not findings:
        return UNTOLD[code]
    return _compared(judged, [finding.test for finding in findings])


def _compared(judged: Sequence[Judged], tails: Sequence[str]) -> Answer:
    """Return the answer where every budget holds; ``tails`` are slower in one boot, which decides nothing."""
    slower = tuple(f"{one.key}: {one.reason}" for one in judged if one.change is Change.REGRESSED)
    if slower:
        return Answer(word=Word.NO_GO, reasons=slower)
    unknown = tuple(f"{one.key}: {one.reason}" for one in judged if one.change in (None, Change.INCONCLUSIVE))
    if unknown or not judged:
        nothing = ("there is no good record of this machine to compare with; this run is one now",)
        why = (*unknown, TO_KNOW) if unknown else nothing
        return Answer(word=Word.DONT_KNOW, reasons=("every budget holds, but", *why))
    notes = (f"slower in this one boot, which decides nothing: {', '.join(tails)}",) if tails else ()
    reasons = ("every budget holds, and nothing is slower", *(one.reason for one in judged), *notes)
    return Answer(word=Word.GO, reasons=reasons)


def read_junit(path: Path) -> tuple[Finding, ...]:
    """Return the tests that did not pass; none where there is no report (the run died early)."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return ()
    return tuple(finding for case in root.iter("testcase") if (finding := _finding(case)) is not None)


def main(
    arguments: Sequence[str],
    run: Callable[[Sequence[str]], int] = subprocess.call,
    say: Callable[[str], None] = print,
) -> int:
    """Run the quick profile, say the word and return its exit code; ``run`` starts a command."""
    started = time.monotonic()
    options = _options(arguments)
    history: Path = options.perf_history
    ref = options.perf_baseline or _last_good(history, options.perf_engine or ())
    before = _files(history)
    with tempfile.TemporaryDirectory(prefix="predeploy-") as folder:
        junit = Path(folder) / "junit.xml"
        code = run(command(arguments, None if options.perf_baseline else ref, junit))
        findings = read_junit(junit)
    allowed = float(options.perf_allowed_change)
    answer = decide(code, findings, _judged(history, before, ref, allowed))
    say(answer.text(time.monotonic() - started))
    return EXIT_CODES[answer.word]


def command(arguments: Sequence[str], baseline: str | None, junit: Path) -> list[str]:
    """Return the pytest command; what the user gave comes last, and so wins."""
    return [
        *(sys.executable, "-m", "pytest", "tests/perf", "--benchmark-compare", "--perf-profile", "quick"),
        # What one rung gains over another is no question of a deploy.
        *("-m", "not perf_ladder", "--perf-allowed-change", ALLOWED),
        *(("--perf-baseline", baseline) if baseline else ()),
        *(*arguments, "--junitxml", str(junit)),
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="predeploy", add_help=False, allow_abbrev=False)
    parser.add_argument("--perf-history", type=Path, default=Path(HISTORY))
    parser.add_argument("--perf-allowed-change", default=ALLOWED)
    parser.add_argument("--perf-baseline")
    parser.add_argument("--perf-engine", action="append")
    return parser.parse_known_args(list(arguments))[0]


def _last_good(history: Path, engines: Sequence[str]) -> str | None:
    found = last_good(history, probe_hardware(), engines)
    return str(history / found.file) if found is not None else None


def _files(history: Path) -> tuple[str, ...]:
    try:
        return tuple(run.file for run in Store(history).contents().runs)
    except StoreError:
        return ()


def _judged(history: Path, before: Sequence[str], ref: str | None, allowed: float) -> list[Judged]:
    record = newest(history, before)
    return judge(history, record, ref, allowed) if record is not None and ref is not None else []


def _finding(case: ElementTree.Element) -> Finding | None:
    failure = next((part for part in case if part.tag in ("failure", "error")), None)
    if failure is None:
        return None
    message = failure.get("message") or ""
    kind = next((kind for name, kind in KINDS.items() if f".{name}:" in message), "failed")
    explanation = (failure.text or "").strip() or message
    return Finding(test=case.get("name", "a test"), kind=kind, explanation=explanation)


def _told(findings: Sequence[Finding], kind: str) -> tuple[str, ...]:
    """Return one reason a finding; the same explanation of several tests is told once."""
    seen: dict[str, str] = {}
    for finding in findings:
        if finding.kind == kind:
            seen.setdefault(finding.explanation, finding.test)
    return tuple(f"{test}: {explanation}" for explanation, test in seen.items())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
