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

from vllm_perf.history.collect import probe_hardware
from vllm_perf.history.entry import RunEntry
from vllm_perf.history.environment import Environment, Hardware
from vllm_perf.history.store import Store, StoreError
from vllm_perf.spec.history import IdentitySpec

HISTORY = ".vllm-perf/history"
# One boot against one boot tells a change of 10 %, not one of 2 %: that is the gate's business.
ALLOWED = "0.10"
# The machine was not free; that says nothing about what is to be deployed.
IN_USE = ("LAB_BUSY", "GPU_FOREIGN_PROCESS")


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
        lines = [f"  - {reason}" for reason in self.reasons]
        return "\n".join([rule, f"{self.word}  (after {took_s:.0f} s)", *lines, rule])


def decide(code: int, findings: Sequence[Finding], baseline: str | None) -> Answer:
    """Return the answer to a run that ended with pytest's exit code ``code``."""
    failed = _told(findings, "failed")
    broken = [finding for finding in findings if finding.kind == "lab broken"]
    if code == 1:
        return Answer(word=Word.NO_GO, reasons=failed or ("a test failed; see above",))
    if code == 11:
        in_use = bool(broken) and all(finding.in_use for finding in broken)
        word = Word.DONT_KNOW if in_use else Word.NO_GO
        return Answer(word=word, reasons=_told(broken, "lab broken") or ("nothing could be measured",))
    if code == 10:
        reasons = _told(findings, "no verdict") or ("a measurement decides nothing; see above",)
        return Answer(word=Word.DONT_KNOW, reasons=reasons)
    if code != 0:
        return Answer(word=Word.DONT_KNOW, reasons=(f"the run did not finish (exit code {code})",))
    if baseline is None:
        return Answer(
            word=Word.DONT_KNOW,
            reasons=(
                "every budget holds, but there was no good record of this machine to compare with",
                "this run is one now: the next predeploy compares with it",
            ),
        )
    return Answer(word=Word.GO, reasons=(f"every budget holds, and nothing is slower than {baseline}",))


def read_junit(path: Path) -> tuple[Finding, ...]:
    """Return the tests that did not pass; none where there is no report (the run died early)."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return ()
    return tuple(finding for case in root.iter("testcase") if (finding := _finding(case)) is not None)


def last_good(history: Path, hardware: Hardware, engines: Sequence[str]) -> RunEntry | None:
    """Return the newest stored run of this machine with a good series of the engines asked for."""
    try:
        runs = Store(history).contents().runs
    except StoreError:
        return None
    return next((run for run in reversed(runs) if _fits(run, hardware, engines)), None)


def main(
    arguments: Sequence[str],
    run: Callable[[Sequence[str]], int] = subprocess.call,
    say: Callable[[str], None] = print,
) -> int:
    """Run the quick profile, say the word and return its exit code; ``run`` starts a command."""
    started = time.monotonic()
    options = _options(arguments)
    found = None
    if options.perf_baseline is None:
        found = last_good(options.perf_history, probe_hardware(), options.perf_engine or ())
    with tempfile.TemporaryDirectory(prefix="predeploy-") as folder:
        junit = Path(folder) / "junit.xml"
        code = run(command(arguments, options.perf_history, found, options.perf_baseline, junit))
        findings = read_junit(junit)
    answer = decide(code, findings, options.perf_baseline or (found.short if found else None))
    say(answer.text(time.monotonic() - started))
    return EXIT_CODES[answer.word]


def command(
    arguments: Sequence[str], history: Path, found: RunEntry | None, named: str | None, junit: Path
) -> list[str]:
    """Return the pytest command; what the user gave comes last, and so wins."""
    compare: list[str] = []
    if found is not None:
        compare = ["--perf-baseline", str(history / found.file)]
    if found is not None or named is not None:
        # Without a record to compare with, nothing compared is no fault of the run.
        compare += ["--perf-fail-on", "inconclusive"]
    return [
        *(sys.executable, "-m", "pytest", "tests/perf", "--benchmark-compare", "--perf-profile", "quick"),
        *("--perf-allowed-change", ALLOWED, *compare, *arguments, "--junitxml", str(junit)),
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="predeploy", add_help=False, allow_abbrev=False)
    parser.add_argument("--perf-history", type=Path, default=Path(HISTORY))
    parser.add_argument("--perf-baseline")
    parser.add_argument("--perf-engine", action="append")
    return parser.parse_known_args(list(arguments))[0]


def _fits(run: RunEntry, hardware: Hardware, engines: Sequence[str]) -> bool:
    keys = [key for key in run.good_keys() if not engines or key.engine in engines]
    return bool(keys) and _same_machine(run.environment_of(keys[0]), hardware)


def _same_machine(environment: Environment, hardware: Hardware) -> bool:
    fields = IdentitySpec().fields("hardware")
    return all(getattr(environment.hardware, name) == getattr(hardware, name) for name in fields)


def _finding(case: ElementTree.Element) -> Finding | None:
    failure = next((part for part in case if part.tag in ("failure", "error")), None)
    if failure is None:
        return None
    told = {item.get("name"): item.get("value") or "" for item in case.iter("property")}
    plain = failure.get("message") or (failure.text or "").strip()
    return Finding(
        test=case.get("name", "a test"),
        kind=told.get("vllm_perf.kind", "failed"),
        explanation=told.get("vllm_perf.explanation") or plain,
    )


def _told(findings: Sequence[Finding], kind: str) -> tuple[str, ...]:
    """Return one line a finding; the same explanation of several tests is told once."""
    seen: dict[str, str] = {}
    for finding in findings:
        if finding.kind == kind:
            seen.setdefault(finding.explanation, finding.test)
    return tuple(f"{test}: {explanation}" for explanation, test in seen.items())


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
