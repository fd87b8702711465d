# SPDX-License-Identifier: Apache-2.0
"""A project with pytest-benchmark alone: times that were measured elsewhere, put into it as its users do."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.plugin.inside import run_inside
from tests.plugin.projects import INI, Finished, read_finished

# A clock that replays samples, given as the marker's timer, is pytest-benchmark's own public way.
TEST = """
import json
from itertools import accumulate
from pathlib import Path

import pytest

SERIES = json.loads((Path(__file__).parents[2] / "series.json").read_text())


def case(name, samples):
    ends = list(accumulate(samples))
    ticks = iter([tick for pair in zip([0.0, *ends], ends) for tick in pair])
    mark = pytest.mark.benchmark(timer=lambda: next(ticks))
    return pytest.param(name, samples, marks=mark, id=name)


@pytest.mark.parametrize(("name", "samples"), [case(*one) for one in SERIES.items()])
def test_series(benchmark, name, samples):
    benchmark.pedantic(lambda: None, rounds=len(samples), iterations=1)
    limit = json.loads((Path(__file__).parents[2] / "limits.json").read_text()).get(name)
    assert limit is None or sum(samples) / len(samples) <= limit
"""
OUT = ("-p", "no:vllm_perf")
COMPARE = ("--benchmark-compare", "--benchmark-compare-fail=mean:5%")


@dataclass(slots=True)
class StockProject:
    """The project; ``env`` is what its runs see on top of ours."""

    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"COLUMNS": "160"})

    def __post_init__(self) -> None:
        """Write its one test."""
        self.write("pytest.ini", INI)
        self.write("tests/perf/test_series.py", TEST)
        self.limits()

    def write(self, name: str, text: str) -> None:
        """Write one file of the project."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def measured(self, **series: float | Sequence[float]) -> None:
        """Let the next run find these times, in seconds."""
        several = {name: [one, one] if isinstance(one, float) else one for name, one in series.items()}
        self.write("series.json", json.dumps(several))

    def limits(self, **limits: float) -> None:
        """Let tests fail whose mean is above its limit, in seconds."""
        self.write("limits.json", json.dumps(limits))

    def run(self, *words: str, paths: tuple[str, ...] = ("tests/perf",)) -> Finished:
        """Run pytest on it to its end, with everything saved."""
        junit = self.root / f"junit-{time.monotonic_ns()}.xml"
        words = (*paths, *OUT, f"--junit-xml={junit}", "--benchmark-autosave", *words)
        code, text = run_inside(words, self.root, self.env)
        return read_finished(code, text, junit)

    def stored(self) -> list[Path]:
        """Return the saved runs by name."""
        return sorted((self.root / ".benchmarks").rglob("*.json"))

    def saved(self) -> list[Mapping[str, Any]]:
        """Return what is in them."""
        return [json.loads(path.read_text()) for path in self.stored()]
