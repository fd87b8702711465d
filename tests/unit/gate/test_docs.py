# SPDX-License-Identifier: Apache-2.0
"""docs/gate.md says what is true: its options exist, its files exist, its numbers are those of the code."""

import argparse
import json
import re
from pathlib import Path

from vllm_perf.commands import gate as command
from vllm_perf.engine.telemetry_summary import (
    CLOCK_DIFFERENCE_ALLOWED,
    GRAPHICS_ALLOWED_MIB,
)
from vllm_perf.gate.decision import EXIT_BROKEN_LAB, EXIT_CODES
from vllm_perf.gate.journal import HALF_PAIR_KEEPS_S
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.predeploy import ALLOWED
from vllm_perf.gate.predeploy import EXIT_CODES as PREDEPLOY_CODES
from vllm_perf.pytest_plugin.options import OPTIONS
from vllm_perf.verdict.policy import Policy

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
OTHERS = {
    "--max-num-seqs",
    "--ephemeral",
    "--pid",
    "--jobs",
}  # vLLM's, the runner's, docker's, the benchmark's


def test_every_option_that_is_named_exists() -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    known = {word for action in parser._actions for word in action.option_strings}
    known |= {f"--perf-{option.name}" for option in OPTIONS} | OTHERS
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert len(named) > 15
    assert named - known == set()


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:scripts|\.github|fixtures|docs)/[\w./-]+)`", TEXT))
    assert len(named) >= 4
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_exit_codes_are_those_of_the_code() -> None:
    for code in {*EXIT_CODES.values(), EXIT_BROKEN_LAB}:
        assert re.search(rf"^\| {code} \| ", TEXT, re.MULTILINE), code
    for word, code in PREDEPLOY_CODES.items():
        assert f"| {word} | {code} |" in TEXT


def test_the_numbers_are_those_of_the_code() -> None:
    limits = Limits()
    assert f"`--min-pairs {limits.min_pairs}`, `--max-pairs {limits.max_pairs}`" in TEXT
    assert f"`--allowed {Policy().allowed:g}`" in TEXT
    assert f"differ between the sides by more than {CLOCK_DIFFERENCE_ALLOWED:.0%}".replace("%", " %") in TEXT
    assert f"a desktop's process under {GRAPHICS_ALLOWED_MIB} MiB" in TEXT
    assert (limits.max_spoiled, HALF_PAIR_KEEPS_S) == (3, 1800)
    assert "measured again, at most three times" in TEXT
    assert "younger than half an hour" in TEXT
    assert float(ALLOWED) == 0.10
    assert "a change of 10 %" in TEXT


POWER = json.loads((ROOT / "docs/results/gate-power.json").read_text(encoding="utf-8"))
COLUMNS = ((0.0, "everything"), (0.05, "everything"), (0.1, "everything"), (0.05, "ttft"), (0.1, "ttft"))


def test_the_power_table_is_the_published_run() -> None:
    found = {(row["noise"], row["way"], row["slowdown"], row["shape"]): row for row in POWER["rows"]}
    for way in {row["way"] for row in POWER["rows"]}:
        rows = [found["boots 1.5 %", way, *column] for column in COLUMNS]
        shares = " | ".join(f"{row['regressed']:.1%}".replace("%", " %") for row in rows)
        assert f"| {way} | {shares} | {rows[0]['boots']:.1f} / {rows[2]['boots']:.1f} |" in TEXT


def test_the_published_run_is_of_the_rule_as_it_is_and_keeps_the_promise() -> None:
    """Another allowance or chance of an alarm wants another run of benchmarks/gate_power.py."""
    assert (POWER["settings"]["allowed"], POWER["settings"]["alpha"]) == (Policy().allowed, Policy().alpha)
    still = [row for row in POWER["rows"] if row["slowdown"] == 0 and row["way"].startswith("gate")]
    assert len(still) == 4 * len(POWER["settings"]["noises"])
    assert all(row["gates"] >= 400 and row["regressed"] <= Policy().alpha for row in still)
    slow = [
        row
        for row in POWER["rows"]
        if (row["slowdown"], row["shape"]) == (0.1, "everything")
        and row["way"].startswith("gate")
        and row["noise"] != "boots 4 %"
    ]
    assert len(slow) == 12
    assert all(row["gates"] >= 200 and row["regressed"] >= 0.95 for row in slow)
