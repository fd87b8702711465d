# SPDX-License-Identifier: Apache-2.0
"""What docs/history.md and fixtures/history.toml say is what the code does."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.history.packing import pack_floats
from vllm_perf.spec.base import parse
from vllm_perf.spec.history import PARTS, HistorySpec, load_history_spec

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(f"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_policy_is_valid() -> None:
    policy = parse(HistorySpec, tomllib.loads(block("toml")), "docs/history.md")
    assert policy.keep_good == 100
    assert "driver" not in policy.identity.hardware


def test_the_shipped_policy_is_the_default() -> None:
    assert load_history_spec(ROOT / "fixtures" / "history.toml") == HistorySpec()


@pytest.mark.parametrize("part", PARTS)
def test_the_page_lists_every_field(part: str) -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {part} |"))
    assert re.findall(r"`(\w+)`", line) == list(PARTS[part])


def test_the_example_reads_a_pack_back() -> None:
    scope: dict[str, Any] = {"text": pack_floats((0.1, float("inf")))}
    exec(block("python"), scope)
    assert list(scope["values"]) == [0.1, float("inf")]


def test_the_alarm_rates_are_those_of_the_published_run() -> None:
    published = json.loads((ROOT / "docs/results/alarm-rates.json").read_text(encoding="utf-8"))
    found = {(row["source"], row["case"], row["floor"]): row for row in published["simulated"]}
    for source in {row["source"] for row in published["simulated"]}:
        cases = ("nothing changed", "TTFT 10 % slower", "TPOT 10 % slower")
        still, ttft, tpot = (
            [found[source, case, floor]["regressed"] for floor in ("assumed", "learnt")] for case in cases
        )
        line = f"| {source.removeprefix('boots ')} | {still[0]} | {still[1]} | {ttft[0]} / {ttft[1]} |"
        assert f"{line} {tpot[0]} / {tpot[1]} |" in PAGE
