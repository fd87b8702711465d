# SPDX-License-Identifier: Apache-2.0
"""A small project with the plugin and golden engines, run by a pytest of its own as a user would run it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.plugin.inside import run_inside

# Long: a machine under load may stop a whole run for minutes.
PATIENCE_S = 600.0
SUITE = Path(__file__).parents[1] / "perf"
# What the pytest around this one, or a developer's shell, would pass on.
DROPPED = frozenset(
    {"PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTHONDONTWRITEBYTECODE"}
)
# Times are long beside what a busy machine adds to them.
ENGINES = """
[ladders.golden]
platform = "golden"
engines = ["first", "middle", "last"]

[engines.first]
title = "initial"
platform = "golden"
model = "golden"
flags = { ttft-ms = 200, itl-ms = 30, prefix-caching = false }
boot_timeout_s = 20

[engines.middle]
extends = "first"
title = "+ prefix caching"
flags = { prefix-caching = true }

[engines.last]
extends = "middle"
title = "+ faster"
flags = { ttft-ms = 100, itl-ms = 15 }
"""
WORKLOADS = """
[workloads.chat]
prompt = { kind = "shared_prefix", shared_tokens = 64, unique_tokens = 8 }
arrival = { kind = "closed", concurrency = 8 }
output_tokens = 4
requests = 8
repetitions = 3
warmup_requests = 1
"""
BUDGETS = """
platform = "cpu"

[[budgets]]
metric = "ttft_p50"
engine = "@last"
workload = "chat"
max = 250

[[budgets]]
metric = "output_throughput"
engine = "@last"
workload = "chat"
relative_to = "@first"
min = 1.2
"""
INI = """
[pytest]
addopts = --import-mode=importlib -p no:cacheprovider -p no:hypothesispytest -p no:unraisableexception
"""
# A busy machine sends late and reads in bursts, and the suite rightly refuses to judge that. These tests
# are about everything else.
CONFTEST = """
from vllm_perf.metrics import validity_client

validity_client.LATE_SHARE_OF_TTFT = 100.0
validity_client.BURST_SHARE = 1.0
validity_client.RATE_SHARE = 0.0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What one run of pytest left: exit code, output, and what its JUnit file says.

    ``cases`` is how each test ended, ``failures`` what each failed test said, by test name.
    """

    code: int
    text: str
    cases: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    junit: str = ""

    def ended(self, how: str) -> set[str]:
        """Return the tests that ended so: "passed", "failed" or "skipped"."""
        return {name for name, outcome in self.cases.items() if outcome == how}

    def metrics(self, how: str) -> set[str]:
        """Return the metrics of the tests that ended so."""
        return {name.removesuffix("]").rsplit(":", 1)[1] for name in self.ended(how)}


def _heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(slots=True)
class Project:
    """A project in a folder of its own; ``env`` keeps its locks and notes away from everybody else's."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the project as most tests want it."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.write("fixtures/engines.toml", ENGINES)
        self.write("fixtures/workloads.toml", WORKLOADS)
        self.write("fixtures/budgets/cpu.toml", BUDGETS)
        self.write("pytest.ini", INI)
        self.write("conftest.py", CONFTEST)
        for path in SUITE.glob("test_*.py"):
            self.write(f"tests/perf/{path.name}", path.read_text())
        self.env |= {
            "VLLM_PERF_STATE_DIR": str(self.root / "state"),
            "CUDA_VISIBLE_DEVICES": "",
            "COLUMNS": "160",
        }

    def write(self, name: str, text: str) -> Path:
        """Write one file of the project."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def change(self, name: str, before: str, after: str) -> None:
        """Replace text that must be there."""
        text = (self.root / name).read_text()
        assert before in text, f"{name} does not hold {before!r}"
        self.write(name, text.replace(before, after))

    def engines(self, before: str, after: str) -> None:
        """Replace text of the engines file that must be there."""
        self.change("fixtures/engines.toml", before, after)

    def run(
        self,
        *args: str,
        paths: tuple[str, ...] = ("tests/perf",),
        golden: bool = True,
        folder: str = ".",
    ) -> Finished:
        """Run pytest on the project to its end, within this process: three times as fast as apart from it."""
        junit, words = self._words(args, paths, golden)
        code, text = run_inside(words, self.root / folder, self.env)
        return read_finished(code, text, junit)

    def run_apart(
        self, *args: str, paths: tuple[str, ...] = ("tests/perf",), golden: bool = True
    ) -> Finished:
        """Run pytest on the project to its end, in a process of its own."""
        junit, words = self._words(args, paths, golden)
        process = self.start(*words)
        try:
            text, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # so that it takes its engine with it
            raise
        return read_finished(process.returncode, text, junit)

    def start(self, *words: str, python: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """Start pytest with these words and return the running process."""
        inherited = {name: value for name, value in os.environ.items() if name not in DROPPED}
        return subprocess.Popen(
            [sys.executable, *python, "-m", "pytest", *words],
            cwd=self.root,
            env={**inherited, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A shell's background job ignores Ctrl-C, and hands that on to all that it starts.
            preexec_fn=_heed_ctrl_c,
        )

    def _words(self, args: tuple[str, ...], paths: tuple[str, ...], golden: bool) -> tuple[Path, list[str]]:
        junit = self.root / f"junit-{time.monotonic_ns()}.xml"
        return junit, [*paths, *(["--perf-golden"] if golden else []), f"--junit-xml={junit}", *args]

    def boots(self) -> list[str]:
        """Return the engines that were booted, one entry a boot (each has a log of its own)."""
        logs = (self.root / ".vllm-perf" / "logs").glob("*.log")
        return sorted(path.name.rsplit("-", 3)[0] for path in logs)

    def forget_boots(self) -> None:
        """Count boots anew."""
        shutil.rmtree(self.root / ".vllm-perf" / "logs", ignore_errors=True)

    def records(self) -> list[dict[str, Any]]:
        """Return the stored runs, oldest first."""
        files = sorted((self.root / ".vllm-perf/history").glob("*.json"))
        return [json.loads(path.read_text()) for path in files]

    def record_ids(self) -> list[str]:
        """Return the ids of the stored runs, oldest first."""
        return [
            path.stem.rsplit("_", 1)[1] for path in sorted((self.root / ".vllm-perf/history").glob("*.json"))
        ]

    def saved(self) -> list[dict[str, Any]]:
        """Return what pytest-benchmark itself saved, oldest first."""
        return [json.loads(path.read_text()) for path in sorted((self.root / ".benchmarks").rglob("*.json"))]

    def sessions(self) -> list[Path]:
        """Return the folders that sessions left."""
        return sorted((self.root / ".vllm-perf" / "sessions").glob("*"))


def rows(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a stored or saved run by name."""
    return {row["name"]: row for row in document["benchmarks"]}


def read_finished(code: int, text: str, junit: Path) -> Finished:
    """Return what a run left, with what its JUnit file says where it wrote one."""
    if not junit.is_file():
        return Finished(code=code, text=text)
    suite = ET.parse(junit).getroot().find("testsuite")
    assert suite is not None
    cases, failures = {}, {}
    for case in suite.iter("testcase"):
        name = str(case.get("name"))
        said = [child.text or "" for child in case if child.tag in ("failure", "error")]
        cases[name] = "failed" if said else "skipped" if case.find("skipped") is not None else "passed"
        if said:
            failures[name] = "\n".join(said)
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    return Finished(
        code=code, text=text, cases=cases, counts=counts, failures=failures, junit=junit.read_text()
    )
