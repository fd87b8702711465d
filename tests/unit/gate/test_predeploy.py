# SPDX-License-Identifier: Apache-2.0
"""Predeploy: one of three words, for reasons, from how the quick profile ended."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.gate.gate_fakes import WHERE
from vllm_perf.gate import predeploy
from vllm_perf.gate.predeploy import Finding, Word, decide, last_good, main, read_junit
from vllm_perf.history.environment import Hardware
from vllm_perf.history.record import Cell, RunRecord, Series, SeriesStatus
from vllm_perf.history.store import Store

SLOWER = Finding(test="ttft_p50[gpu-last-chat]", kind="failed", explanation="got slower: 148 -> 190 ms")
UNSURE = Finding(test="tpot[gpu-last-chat]", kind="no verdict", explanation="GPU 0 throttled")
BUSY = Finding(test="boot", kind="lab broken", explanation="cpu is in use\nLAB_BUSY: another session runs")
DEAD = Finding(test="boot", kind="lab broken", explanation="did not boot\nOOM_WEIGHTS: too large")


@pytest.mark.parametrize(
    ("code", "findings", "baseline", "word", "reason"),
    [
        (0, (), "run 1", Word.GO, "nothing is slower than run 1"),
        (0, (), None, Word.DONT_KNOW, "no good record of this machine"),
        (1, (UNSURE, SLOWER), "run 1", Word.NO_GO, "ttft_p50[gpu-last-chat]: got slower"),
        (1, (), "run 1", Word.NO_GO, "a test failed"),
        (10, (UNSURE,), "run 1", Word.DONT_KNOW, "GPU 0 throttled"),
        (11, (BUSY,), "run 1", Word.DONT_KNOW, "LAB_BUSY"),
        (11, (DEAD,), "run 1", Word.NO_GO, "OOM_WEIGHTS"),
        (11, (BUSY, DEAD), "run 1", Word.NO_GO, "OOM_WEIGHTS"),
        (11, (), "run 1", Word.NO_GO, "nothing could be measured"),
        (2, (), "run 1", Word.DONT_KNOW, "did not finish (exit code 2)"),
        (5, (), "run 1", Word.DONT_KNOW, "did not finish (exit code 5)"),
        (-9, (), "run 1", Word.DONT_KNOW, "did not finish (exit code -9)"),
    ],
)
def test_each_ending_has_its_word_and_reason(
    code: int, findings: tuple[Finding, ...], baseline: str | None, word: Word, reason: str
) -> None:
    answer = decide(code, findings, baseline)
    assert answer.word is word
    assert reason in " ".join(answer.reasons)


def test_one_explanation_of_many_tests_is_told_once() -> None:
    same = [replace(DEAD, test=f"test {number}") for number in range(9)]
    assert len(decide(11, same, None).reasons) == 1


JUNIT = """<testsuites><testsuite><testcase name="ok"/>
<testcase name="ttft"><properties><property name="vllm_perf.kind" value="no verdict"/>
<property name="vllm_perf.explanation" value="too few requests"/></properties>
<failure message="short">long</failure></testcase>
<testcase name="plain"><failure message="assert 1 == 2">trace</failure></testcase></testsuite></testsuites>"""


def test_findings_come_from_the_junit_report_with_their_own_words(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    assert read_junit(tmp_path / "junit.xml") == (
        Finding(test="ttft", kind="no verdict", explanation="too few requests"),
        Finding(test="plain", kind="failed", explanation="assert 1 == 2"),
    )


@pytest.mark.parametrize("text", [None, "", "<testsuites>"])
def test_a_run_that_left_no_report_has_no_findings(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "junit.xml").write_text(text)
    assert read_junit(tmp_path / "junit.xml") == ()


CARD = Hardware(gpu_names=("H200",))


def stored(
    folder: Path, created: str, hardware: Hardware = CARD, status: SeriesStatus = SeriesStatus.OK
) -> str:
    """Store a run of one series and return its file's name."""
    series = Series(
        engine="e", workload="chat", metric="ttft_p50", unit="ms", direction="lower", value=1.0, status=status
    )
    cell = Cell(engine="e", workload="chat", environment=replace(WHERE, hardware=hardware))
    record = RunRecord(
        run_id=created[-9:-1].replace(":", ""), created=created, cells=(cell,), series=(series,)
    )
    return Store(folder).save(record).name


def test_the_record_to_compare_with_is_the_newest_good_one_of_this_machine(tmp_path: Path) -> None:
    stored(tmp_path, "2026-11-01T10:00:01Z")
    good = stored(tmp_path, "2026-11-02T10:00:02Z")
    stored(tmp_path, "2026-11-03T10:00:03Z", status=SeriesStatus.REGRESSED)
    stored(tmp_path, "2026-11-04T10:00:04Z", hardware=Hardware(gpu_names=("H100",)))
    found = last_good(tmp_path, CARD, ())
    assert found is not None
    assert found.file == good


def test_an_engine_that_was_never_measured_has_no_record(tmp_path: Path) -> None:
    stored(tmp_path, "2026-11-01T10:00:01Z")
    assert last_good(tmp_path, CARD, ("other",)) is None
    assert last_good(tmp_path / "nowhere", CARD, ()) is None


class Ran:
    """Stand for pytest: keep the command, end with a code."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.command: Sequence[str] = ()

    def __call__(self, command: Sequence[str]) -> int:
        self.command = command
        return self.code


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predeploy, "probe_hardware", lambda: CARD)


@pytest.mark.usefixtures("machine")
def test_with_a_record_the_run_is_held_against_it_and_must_decide(tmp_path: Path) -> None:
    file = stored(tmp_path, "2026-11-01T10:00:01Z")
    ran = Ran(0)
    said: list[str] = []
    assert main(["--perf-history", str(tmp_path)], ran, said.append) == 0
    text = " ".join(ran.command)
    assert f"--perf-baseline {tmp_path / file} --perf-fail-on inconclusive" in text
    assert "pytest tests/perf --benchmark-compare --perf-profile quick --perf-allowed-change 0.10" in text
    assert "\nGO  (after " in said[0]


@pytest.mark.usefixtures("machine")
def test_without_a_record_the_budgets_are_still_held_and_the_answer_is_dont_know(tmp_path: Path) -> None:
    ran = Ran(0)
    said: list[str] = []
    assert main(["--perf-history", str(tmp_path)], ran, said.append) == 10
    assert "--perf-fail-on" not in ran.command
    assert "DON'T KNOW" in said[0]


@pytest.mark.usefixtures("machine")
def test_what_the_user_gives_comes_last_and_reaches_pytest(tmp_path: Path) -> None:
    stored(tmp_path, "2026-11-01T10:00:01Z")
    given = [
        "--perf-history",
        str(tmp_path),
        "--perf-base-url",
        "http://127.0.0.1:8000/v1",
        "--perf-model",
        "m",
    ]
    ran = Ran(1)
    assert main(given, ran, lambda _: None) == 1
    assert list(ran.command[-8:-2]) == given


@pytest.mark.usefixtures("machine")
def test_a_baseline_that_the_user_names_is_not_overruled(tmp_path: Path) -> None:
    stored(tmp_path, "2026-11-01T10:00:01Z")
    ran = Ran(0)
    assert main(["--perf-history", str(tmp_path), "--perf-baseline=release"], ran, lambda _: None) == 0
    assert " ".join(ran.command).count("--perf-baseline") == 1
