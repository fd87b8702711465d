# SPDX-License-Identifier: Apache-2.0
"""Break one definition at a time and see the named test turn red.

    python benchmarks/definition_breaks.py            # all of definition_breaks.toml
    python benchmarks/definition_breaks.py --only H12 # those whose line holds the word
    python benchmarks/definition_breaks.py --markdown # the table of docs/metrics.md, nothing is run

The sources are copied; the working tree is never touched. Exit code 1 where a break leaves its test green.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BREAKS = Path(__file__).with_suffix(".toml")
SOURCES = ROOT / "src" / "vllm_perf"
TESTS = ROOT / "tests" / "unit"
STREAM_CASES = TESTS / "load" / "test_stream_cases.py"
RED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One break: in ``file``, ``old`` becomes ``new``, and ``test`` must go red."""

    what: str
    file: str
    old: str
    new: str
    test: str

    def broken(self, text: str) -> str:
        """Return the broken source.

        Raises:
            ValueError: the text to be broken is not there exactly once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} is there {text.count(self.old)} times")
        return text.replace(self.old, self.new)

    def test_files(self) -> list[Path]:
        """Return the files that hold the test; what has brackets is a stream case."""
        if "[" in self.test:
            return [STREAM_CASES]
        name = self.test
        return [path for path in sorted(TESTS.rglob("test_*.py")) if f"def {name}(" in path.read_text()]


def load() -> list[Break]:
    """Return every break."""
    return [Break(**entry) for entry in tomllib.loads(BREAKS.read_text())["break"]]


def table(breaks: list[Break]) -> str:
    """Return the table for docs/metrics.md."""
    lines = ["| broken | in | went red |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {one.what} | `{one.file}` | `{one.test}` |" for one in breaks)])


def run(one: Break) -> int:
    """Return pytest's exit code for the break's test on broken sources."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src" / "vllm_perf"
        shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
        path = copy / one.file
        path.write_text(one.broken(path.read_text()))
        files = [str(path.relative_to(ROOT)) for path in one.test_files()]
        select = [f"{files[0]}::{one.test}"] if "[" in one.test else [*files, "-k", one.test]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *select]
        env = {**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=False).returncode


def main() -> int:
    """Do every break asked for; say which test did not mind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="breaks whose description or test holds this")
    parser.add_argument("--markdown", action="store_true", help="print the table and run nothing")
    args = parser.parse_args()
    breaks = [one for one in load() if args.only in one.what + one.test]
    if args.markdown:
        print(table(breaks))
        return 0
    codes = {}
    for one in breaks:
        codes[one.what] = run(one)
        print(f"{'red' if codes[one.what] == RED else 'NOT RED'}  {one.what}: {one.test}", flush=True)
    return int(any(code != RED for code in codes.values()))


if __name__ == "__main__":
    sys.exit(main())
