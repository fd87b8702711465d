# SPDX-License-Identifier: Apache-2.0
"""A small project with the plugin and golden engines, run by a pytest of its own as a user would run it."""

import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUITE = Path(__file__).parents[1] / "perf"
# What the pytest around this one, or a developer's shell, would pass on.
DROPPED = frozenset({"PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTHONDONTWRITEBYTECODE"})
ENGINES = """
[ladders.golden]
platform = "golden"
engines = ["first", "middle", "last"]

[engines.first]
title = "initial"
platform = "golden"
model = "golden"
flags = { ttft-ms = 50, itl-ms = 8, prefix-caching = false }
boot_timeout_s = 20

[engines.middle]
extends = "first"
title = "+ prefix caching"
flags = { prefix-caching = true }

[engines.last]
extends = "middle"
title = "+ faster"
flags = { ttft-ms = 30, itl-ms = 5 }
"""
WORKLOADS = """
[workloads.chat]
prompt = { kind = "shared_prefix", shared_tokens = 64, unique_tokens = 8 }
arrival = { kind = "closed", concurrency = 16 }
output_tokens = 5
requests = 32
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What one run of pytest left: exit code, output, and the test cases of its JUnit file."""

    code: int
    text: str
    root: Path
    cases: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    junit: str = ""

    def ended(self, how: str) -> set[str]:
        """Return the tests that ended so: "passed", "failed" or "skipped"."""
        return {name for name, outcome in self.cases.items() if outcome == how}


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
        self.write(
            "pytest.ini",
            "[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider -p no:hypothesispytest\n",
        )
        for path in SUITE.glob("test_*.py"):
            self.write(f"tests/perf/{path.name}", path.read_text())
        self.env = {
            **{name: value for name, value in os.environ.items() if name not in DROPPED},
            "VLLM_PERF_STATE_DIR": str(self.root / "state"),
            "CUDA_VISIBLE_DEVICES": "",
            "COLUMNS": "140",
            **self.env,
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

    def start(
        self, *args: str, paths: tuple[str, ...] = ("tests/perf",), **env: str
    ) -> "subprocess.Popen[str]":
        """Start pytest on the project and return the running process."""
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *paths, *args],
            cwd=self.root,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(
        self, *args: str, paths: tuple[str, ...] = ("tests/perf",), golden: bool = True, **env: str
    ) -> Finished:
        """Run pytest on the project to its end."""
        junit = self.root / f"junit-{time.monotonic_ns()}.xml"
        more = ("--perf-golden",) if golden else ()
        process = self.start(*more, f"--junit-xml={junit}", *args, paths=paths, **env)
        text, _ = process.communicate(timeout=90)
        return finished(process.returncode, text, junit, self.root)

    def boots(self) -> list[str]:
        """Return the engines that were booted, oldest first, one entry a boot."""
        logs = sorted(
            (self.root / ".vllm-perf" / "logs").glob("*.log"), key=lambda path: path.stat().st_ctime_ns
        )
        return [path.name.rsplit("-", 3)[0] for path in logs]

    def forget_boots(self) -> None:
        """Count boots anew."""
        shutil.rmtree(self.root / ".vllm-perf" / "logs", ignore_errors=True)

    def records(self) -> list[dict[str, Any]]:
        """Return the stored runs, oldest first."""
        return [
            json.loads(path.read_text()) for path in sorted((self.root / ".vllm-perf/history").glob("*.json"))
        ]

    def saved(self) -> list[dict[str, Any]]:
        """Return what pytest-benchmark itself saved, oldest first."""
        return [json.loads(path.read_text()) for path in sorted((self.root / ".benchmarks").rglob("*.json"))]


def finished(code: int, text: str, junit: Path, root: Path) -> Finished:
    """Read what a run left."""
    if not junit.is_file():
        return Finished(code=code, text=text, root=root)
    suite = ET.parse(junit).getroot().find("testsuite")
    assert suite is not None
    cases = {}
    for case in suite.iter("testcase"):
        children = {child.tag for child in case} - {"properties", "system-out", "system-err"}
        outcome = "failed" if children & {"failure", "error"} else "skipped" if children else "passed"
        cases[str(case.get("name"))] = outcome
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    return Finished(code=code, text=text, root=root, cases=cases, counts=counts, junit=junit.read_text())
