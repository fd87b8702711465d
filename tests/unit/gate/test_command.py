# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf gate`` as a command: options, exit codes, what it prints and writes."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.gate.golden_gate import SLOWER, GoldenBoots
from vllm_perf import cli
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import BootFailed
from vllm_perf.engine.install import Install
from vllm_perf.gate import lab, session
from vllm_perf.spec.category import Category
from vllm_perf.verdict.sequential import SideName

ENGINES = """
[ladders.any]
platform = "any"
engines = ["plain", "cached"]
[engines.plain]
model = "golden"
[engines.cached]
model = "golden"
flags = { enable-prefix-caching = true }
"""
WORKLOADS = """
[workloads.chat]
prompt = { kind = "unique", unique_tokens = 64 }
arrival = { kind = "closed", concurrency = 8 }
output_tokens = 4
requests = 16
request_timeout_s = 20
warmup_requests = 0
"""


class Boots(GoldenBoots):
    """Golden boots with the device's lock left out."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class Broken:
    """A device on which nothing boots."""

    def __call__(self, side: SideName) -> AbstractContextManager[Engine]:
        raise BootFailed(
            f"engine '{side}' did not boot",
            Diagnosis(
                category=Category.OOM_WEIGHTS,
                cause="the weights do not fit",
                evidence="needs 15.2 GiB, 11.9 GiB are free",
                remedy="take a smaller model",
            ),
        )

    def close(self) -> None:
        """Nothing is held."""


Run = Callable[..., int]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the command, run in a folder of its own on the given boots."""
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/engines.toml").write_text(ENGINES)
    (tmp_path / "fixtures/workloads.toml").write_text(WORKLOADS)
    monkeypatch.chdir(tmp_path)
    install = Install(python="python", distribution="vllm", version="0.33.0", torch="2.11")
    monkeypatch.setattr(lab, "find_install", lambda _: install)

    def run(boots: Any, *arguments: str) -> int:
        monkeypatch.setattr(session, "VllmBoots", lambda **_: boots)
        return cli.main(["gate", *arguments])

    return run


SIDES = ("--base", "plain", "--head", "@last")
SHORT = ("--min-pairs", "2", "--max-pairs", "3", "--allowed", "0.05")


def test_a_slower_head_exits_1_with_json_and_a_summary(
    gate: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    boots = Boots(**SLOWER)
    assert gate(boots, *SIDES, *SHORT, "--json", "--markdown", "summary.md") == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["exit_code"]) == ("regressed", 1)
    assert (data["base"], data["head"]) == ("plain, vLLM 0.33.0", "cached, vLLM 0.33.0")
    assert (tmp_path / "summary.md").read_text().startswith("## ❌ Head is slower than base")
    assert boots.closed == 1


def test_the_noise_that_base_showed_is_kept_for_the_next_gate(gate: Run, tmp_path: Path) -> None:
    gate(Boots(**SLOWER), *SIDES, *SHORT)
    (kept,) = (tmp_path / ".vllm-perf/history").glob("noise-floors*")
    assert '"ttft_p50"' in kept.read_text()


def test_a_lab_that_is_broken_exits_11_with_the_diagnosis(
    gate: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(Broken(), *SIDES, "--json", "--markdown", "summary.md") == 11
    shown = capsys.readouterr()
    assert json.loads(shown.out)["category"] == "OOM_WEIGHTS"
    assert "take a smaller model" in shown.err
    assert "needs 15.2 GiB" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--base", "plain", "--head", "chached"), "did you mean 'cached'"),
        ((*SIDES, "--workload", "caht"), "did you mean 'chat'"),
        ((*SIDES, "--min-pairs", "1"), "--min-pairs: at least 2"),
        ((*SIDES, "--base-engines", "nowhere.toml"), "nowhere.toml: cannot be read"),
    ],
)
def test_a_wrong_word_exits_2_and_boots_nothing(
    gate: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    boots = Boots(base=20.0, head=20.0)
    assert gate(boots, *arguments) == 2
    assert message in capsys.readouterr().err
    assert boots.booted == []
