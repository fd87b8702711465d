# SPDX-License-Identifier: Apache-2.0
"""Predeploy: one of three words, for reasons, from how the quick profile ended."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.gate.gate_fakes import WHERE, cell
from vllm_perf.gate import predeploy
from vllm_perf.gate.against_record import Judged, judge, last_good, newest
from vllm_perf.gate.predeploy import Answer, Finding, Word, decide, main, read_junit
from vllm_perf.history.environment import Hardware
from vllm_perf.history.record import RunRecord, SeriesKey, SeriesStatus
from vllm_perf.history.store import Store
from vllm_perf.verdict.types import Change

SLOWER = Finding(test="ttft_p50[gpu-last-chat]", kind="failed", explanation="got slower: 148 -> 190 ms")
UNSURE = Finding(test="tpot[gpu-last-chat]", kind="no verdict", explanation="GPU 0 throttled")
BUSY = Finding(test="boot", kind="lab broken", explanation="cpu is in use\nLAB_BUSY: another session runs")
DEAD = Finding(test="boot", kind="lab broken", explanation="did not boot\nOOM_WEIGHTS: too large")
TAIL = Finding(test="itl_p95", kind="failed", explanation="itl_p95[gpu-last-chat] regressed: 3 -> 6 ms")
MIDDLE = Finding(test="ttft_p50", kind="failed", explanation="ttft_p50[gpu-last-chat] regressed: 1 -> 2 ms")
KEY = SeriesKey("gpu-last", "chat", "ttft_p50")


def one(change: Change | None) -> Judged:
    return Judged(key=KEY, change=change, reason=f"it is {change}")


@pytest.mark.parametrize(
    ("code", "findings", "judged", "word", "reason"),
    [
        (0, (), (one(Change.SAME), one(Change.IMPROVED)), Word.GO, "nothing is slower"),
        (0, (), (), Word.DONT_KNOW, "no good record of this machine"),
        (0, (), (one(Change.SAME), one(Change.REGRESSED)), Word.NO_GO, "it is regressed"),
        (0, (), (one(Change.SAME), one(Change.INCONCLUSIVE)), Word.DONT_KNOW, "it is inconclusive"),
        (0, (), (one(Change.INCONCLUSIVE),), Word.DONT_KNOW, "teach this machine's noise floor"),
        (0, (), (one(Change.SAME), one(None)), Word.DONT_KNOW, "it is None"),
        (1, (UNSURE, SLOWER), (), Word.NO_GO, "ttft_p50[gpu-last-chat]: got slower"),
        (1, (), (), Word.NO_GO, "a test failed"),
        (1, (TAIL,), (one(Change.SAME),), Word.GO, "decides nothing: itl_p95"),
        (1, (TAIL, MIDDLE), (one(Change.SAME),), Word.NO_GO, "1 -> 2 ms"),
        (1, (TAIL, UNSURE), (one(Change.SAME),), Word.DONT_KNOW, "GPU 0 throttled"),
        (1, (TAIL,), (one(Change.REGRESSED),), Word.NO_GO, "it is regressed"),
        (10, (UNSURE,), (), Word.DONT_KNOW, "GPU 0 throttled"),
        (11, (BUSY,), (), Word.DONT_KNOW, "LAB_BUSY"),
        (11, (DEAD,), (), Word.NO_GO, "OOM_WEIGHTS"),
        (11, (BUSY, DEAD), (), Word.NO_GO, "OOM_WEIGHTS"),
        (11, (), (), Word.NO_GO, "nothing could be measured"),
        (2, (), (), Word.DONT_KNOW, "did not finish (exit code 2)"),
        (5, (), (), Word.DONT_KNOW, "did not finish (exit code 5)"),
        (-9, (), (), Word.DONT_KNOW, "did not finish (exit code -9)"),
    ],
)
def test_each_ending_has_its_word_and_reason(
    code: int, findings: tuple[Finding, ...], judged: tuple[Judged, ...], word: Word, reason: str
) -> None:
    answer = decide(code, findings, judged)
    assert answer.word is word
    assert reason in " ".join(answer.reasons)


def test_one_explanation_of_many_tests_is_told_once() -> None:
    same = [replace(DEAD, test=f"test {number}") for number in range(9)]
    assert len(decide(11, same, ()).reasons) == 1


def test_many_reasons_are_cut_and_counted() -> None:
    text = Answer(word=Word.NO_GO, reasons=tuple(f"reason {number}" for number in range(20))).text(3)
    assert "reason 7" in text
    assert "reason 8" not in text
    assert "and 12 more" in text


JUNIT = """<testsuites><testsuite><testcase name="ok"/>
<testcase name="ttft"><failure message="vllm_perf.pytest_plugin.failures.NoVerdict: too few">too few requests
were sent</failure></testcase>
<testcase name="boot"><failure message="vllm_perf.pytest_plugin.failures.LabBroken: x">it died</failure>
</testcase>
<testcase name="plain"><failure message="assert 1 == 2"/></testcase></testsuite></testsuites>"""


def test_findings_come_from_the_junit_report_with_their_own_words(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(JUNIT)
    assert read_junit(tmp_path / "junit.xml") == (
        Finding(test="ttft", kind="no verdict", explanation="too few requests\nwere sent"),
        Finding(test="boot", kind="lab broken", explanation="it died"),
        Finding(test="plain", kind="failed", explanation="assert 1 == 2"),
    )


@pytest.mark.parametrize("text", [None, "", "<testsuites>"])
def test_a_run_that_left_no_report_has_no_findings(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "junit.xml").write_text(text)
    assert read_junit(tmp_path / "junit.xml") == ()


CARD = Hardware(gpu_names=("H200",))


def stored(
    folder: Path,
    day: int,
    hardware: Hardware = CARD,
    status: SeriesStatus = SeriesStatus.OK,
    ttft_ms: float = 100.0,
) -> str:
    """Store a run of one cell and return its file's name."""
    measured = cell(ttft_ms=ttft_ms)
    assert measured.cell is not None
    record = RunRecord(
        run_id=f"run{day:04}",
        created=f"2026-11-{day:02}T10:00:00Z",
        cells=(replace(measured.cell, environment=replace(WHERE, hardware=hardware)),),
        series=tuple(replace(series, status=status) for series in measured.series),
    )
    return Store(folder).save(record).name


def test_the_record_to_compare_with_is_the_newest_good_one_of_this_machine(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    good = stored(tmp_path, 2)
    stored(tmp_path, 3, status=SeriesStatus.REGRESSED)
    stored(tmp_path, 4, hardware=Hardware(gpu_names=("H100",)))
    found = last_good(tmp_path, CARD, ())
    assert found is not None
    assert found.file == good


def test_an_engine_that_was_never_measured_has_no_record(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    assert last_good(tmp_path, CARD, ("other",)) is None
    assert last_good(tmp_path / "nowhere", CARD, ()) is None


@pytest.mark.parametrize(
    ("ttft_ms", "change"), [(100.0, Change.SAME), (200.0, Change.REGRESSED), (50.0, Change.IMPROVED)]
)
def test_a_run_is_held_against_the_record_in_three_metrics(
    tmp_path: Path, ttft_ms: float, change: Change
) -> None:
    base = stored(tmp_path, 1)
    head = stored(tmp_path, 2, ttft_ms=ttft_ms)
    record = newest(tmp_path, [base])
    assert record is not None
    judged = {found.key.metric: found for found in judge(tmp_path, record, str(tmp_path / base), 0.10)}
    assert set(judged) == {"ttft_p50", "tpot_p50", "output_throughput"}
    assert judged["ttft_p50"].change is change
    assert judged["tpot_p50"].change is Change.SAME
    assert newest(tmp_path, [base, head]) is None


def test_a_record_of_another_machine_is_nothing_to_compare_with(tmp_path: Path) -> None:
    base = stored(tmp_path, 1, hardware=Hardware(gpu_names=("H100",)))
    stored(tmp_path, 2)
    record = newest(tmp_path, [base])
    assert record is not None
    judged = judge(tmp_path, record, str(tmp_path / base), 0.10)
    assert [found.change for found in judged] == [None] * 3


class Ran:
    """Stand for pytest: keep the command, store a run meanwhile, end with a code."""

    def __init__(self, code: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.code = code
        self.meanwhile = meanwhile
        self.command: Sequence[str] = ()

    def __call__(self, command: Sequence[str]) -> int:
        self.command = command
        self.meanwhile()
        return self.code


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predeploy, "probe_hardware", lambda: CARD)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("ttft_ms", "code", "word"), [(100.0, 0, "GO"), (200.0, 1, "NO-GO")])
def test_with_a_record_the_run_is_held_against_it(
    tmp_path: Path, ttft_ms: float, code: int, word: str
) -> None:
    file = stored(tmp_path, 1)
    ran = Ran(0, lambda: stored(tmp_path, 2, ttft_ms=ttft_ms))
    said: list[str] = []
    assert main(["--perf-history", str(tmp_path)], ran, said.append) == code
    text = " ".join(ran.command)
    assert "pytest tests/perf --benchmark-compare --perf-profile quick -m not perf_ladder" in text
    assert f"--perf-baseline {tmp_path / file}" in text
    assert f"\n{word}  (after " in said[0]


@pytest.mark.usefixtures("machine")
def test_without_a_record_the_budgets_are_still_held_and_the_answer_is_dont_know(tmp_path: Path) -> None:
    ran = Ran(0, lambda: stored(tmp_path, 2))
    said: list[str] = []
    assert main(["--perf-history", str(tmp_path)], ran, said.append) == 10
    assert "--perf-baseline" not in ran.command
    assert "DON'T KNOW" in said[0]


@pytest.mark.usefixtures("machine")
def test_a_run_that_left_no_record_is_dont_know(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    assert main(["--perf-history", str(tmp_path)], Ran(0), lambda _: None) == 10


@pytest.mark.usefixtures("machine")
def test_what_the_user_gives_comes_last_and_reaches_pytest(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    server = ["--perf-base-url", "http://127.0.0.1:8000/v1", "--perf-model", "m"]
    given = ["--perf-history", str(tmp_path), *server]
    ran = Ran(1)
    assert main(given, ran, lambda _: None) == 1
    assert list(ran.command[-8:-2]) == given


@pytest.mark.usefixtures("machine")
def test_a_baseline_that_the_user_names_is_the_one_that_counts(tmp_path: Path) -> None:
    old = stored(tmp_path, 1, ttft_ms=200.0)
    stored(tmp_path, 2, ttft_ms=100.0)
    ran = Ran(0, lambda: stored(tmp_path, 3, ttft_ms=200.0))
    given = ["--perf-history", str(tmp_path), "--perf-baseline", str(tmp_path / old)]
    assert main(given, ran, lambda _: None) == 0
    assert " ".join(ran.command).count("--perf-baseline") == 1
