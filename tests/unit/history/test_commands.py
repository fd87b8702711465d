# SPDX-License-Identifier: Apache-2.0
"""`vllm-perf compare` and `vllm-perf history` do what they say, and say plainly when they cannot."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.history.builders import H200, at, environment, record, series
from tests.unit.history.synthetic import Truth, made_up
from vllm_perf.cli import main
from vllm_perf.history.environment import Hardware
from vllm_perf.history.git import Suite
from vllm_perf.history.record import SeriesStatus
from vllm_perf.history.store import Store
from vllm_perf.pytest_plugin.options import OPTIONS


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "history")
    for number, truth in enumerate((Truth(seed=1), Truth(seed=2), Truth(seed=3, slower="fp8", ttft=1.4))):
        suite = Suite(commit="a" * 40, branch="main", dirty=False)
        store.save(made_up(f"{number}{number}{number}{number}", truth, created=at(number), suite=suite))
    return store.directory


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def compare(capsys: pytest.CaptureFixture[str], history: Path, *arguments: str) -> tuple[int, str, str]:
    return call(capsys, "compare", "--history", str(history), *arguments)


def action(
    capsys: pytest.CaptureFixture[str], history: Path, name: str, *arguments: str
) -> tuple[int, str, str]:
    return call(capsys, "history", name, "--history", str(history), *arguments)


def test_compare_says_regressed_and_exits_1(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compare(capsys, history, "0000", "2222")
    assert (code, err) == (1, "")
    assert out.splitlines()[-1].startswith("REGRESSED: ttft_p50[fp8-chat]")
    assert "--perf-baseline 0000" in out


def test_compare_allows_what_the_suite_does_unless_told_otherwise(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = compare(capsys, history, "0000", "2222", "--json")
    gating = [one for one in json.loads(out)["series"] if one["metric"] == "ttft_p50"]
    assert {one["allowed"] for one in gating} == {float(suites_default())}
    assert compare(capsys, history, "0000", "2222", "--allowed", "0.9")[0] != 1
    code, _, err = compare(capsys, history, "0000", "2222", "--allowed", "-1")
    assert code == 2
    assert "--allowed: -1 is no share" in err


def suites_default() -> str:
    return str(next(option.default for option in OPTIONS if option.name == "allowed-change"))


def test_compare_without_enough_pairs_is_no_verdict(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(capsys, history, "0000", "1111")[0] == 10


def test_compare_as_json_is_strict_and_whole(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compare(capsys, history, "0000", "2222", "--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, found["verdict"]) == (1, "regressed")
    worse = [one for one in found["series"] if one["change"] == "regressed" and one["gating"]]
    assert {one["metric"] for one in worse} == {"ttft_p50"}
    assert worse[0]["moved"] == ["prefill"]


def test_compare_as_markdown_and_as_a_page(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = compare(capsys, history, "0000", "2222", "--markdown", "--html", str(tmp_path / "page.html"))
    assert out.startswith("## 🔴 Regressed")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_compare_takes_files(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_, last = (str(path) for path in sorted(history.glob("*.json")))
    assert call(capsys, "compare", first, last)[0] == 1


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            ("0000", "nothing"),
            "'nothing' is no file, no anchor (none), no commit known here and none of the 3 runs in",
        ),
        (("nothing", "0000"), "'nothing' is no file"),
        (("0000", "0000"), "'0000' is the same run as the head"),
    ],
)
def test_compare_with_a_wrong_name_is_a_usage_error(
    history: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, str], says: str
) -> None:
    code, out, err = compare(capsys, history, *names)
    assert (code, out) == (2, "")
    assert says in err


def test_a_history_that_is_not_there_is_said_to_be_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = compare(capsys, tmp_path / "typo", "0000", "0001")
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'typo'}, which does not exist" in err


def test_compare_names_a_file_that_it_cannot_read(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (history / "2026_0101T000000000000Z_x_torn.json").write_text('{"vllm_perf": {"schema_ver')
    _code, out, _err = compare(capsys, history, "0000", "1111")
    assert "2026_0101T000000000000Z_x_torn.json: skipped: not JSON" in out


def test_compare_refuses_runs_of_two_machines(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    l4 = environment(hardware=replace(H200, gpu_names=("NVIDIA L4",)))
    Store(history).save(record(run_id="9999", created=at(9), env=l4))
    code, out, _ = compare(capsys, history, "0000", "9999")
    assert code == 10
    assert "no baseline for this hardware: the nearest, run 0000" in out
    assert "hardware.gpu_names: NVIDIA H200 → NVIDIA L4" in out


def test_a_policy_that_cannot_be_used_is_a_usage_error(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text("keep = 1\n")
    code, _, err = compare(capsys, history, "0000", "2222", "--policy", str(tmp_path / "policy.toml"))
    assert code == 2
    assert "unknown key 'keep'" in err


def test_list_shows_the_latest_last(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = action(capsys, history, "list", "--last", "2")
    lines = out.splitlines()
    assert code == 0
    assert [line.split()[0] for line in lines] == ["run", "1111", "2222", "and"]
    assert lines[-1] == "and 1 older (--last 3)"


def test_list_of_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing stored yet" in action(capsys, tmp_path / "none", "list")[1]


def test_list_names_what_was_skipped(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (history / "2026_broken.json").write_text("{")
    code, out, err = action(capsys, history, "list", "--json")
    assert code == 0
    assert len(json.loads(out)) == 3
    assert "2026_broken.json: skipped: not JSON" in err


def test_list_tells_how_series_ended(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = record(series(status=SeriesStatus.FAILED_BUDGET), run_id="9999", created=at(9), complete=False)
    Store(history).save(bad)
    assert "0 ok, 1 over budget, cut short" in action(capsys, history, "list")[1]


def test_show_prints_where_and_the_ladder(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = action(capsys, history, "show", "2222")
    assert code == 0
    assert "hardware  NVIDIA H200" in out
    assert "+ fp8 KV cache" in out


def test_trend_finds_a_change_of_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    for number in range(20):
        value = (200.0 if number < 10 else 240.0) + number % 3
        store.save(record(series(value=value), run_id=f"run{number:02d}", created=at(number)))
    _, out, _ = action(capsys, tmp_path, "trend")
    assert "worse by +19" in out or "worse by +20" in out
    assert "from run run10" in out
    _, out, _ = action(capsys, tmp_path, "trend", "--json", "--metric", "ttft_p50")
    assert json.loads(out)[0]["shifts"][0]["run_id"] == "run10"


def test_trend_of_an_unknown_metric_lists_the_known(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = action(capsys, history, "trend", "--metric", "tfft")
    assert code == 2
    assert "ttft_p50" in err


def test_prune_only_says_what_would_go_until_told_to(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = action(capsys, history, "prune", "--keep", "1")
    assert out.splitlines()[-1] == "1 runs stay, 2 would go (--yes deletes them)"
    assert len(list(history.glob("*.json"))) == 3
    assert action(capsys, history, "prune", "--keep", "1", "--yes")[0] == 0
    assert len(list(history.glob("*.json"))) == 1


def test_an_anchored_run_is_not_pruned(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert action(capsys, history, "anchor", "release", "0000")[0] == 0
    action(capsys, history, "prune", "--keep", "1", "--yes")
    assert "[release]" in action(capsys, history, "list")[1]
    assert action(capsys, history, "anchor", "release", "--drop")[1] == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("release",), "an anchor needs a name and a run"),
        (("--drop",), "an anchor needs a name and a run"),
        (("release", "zzzz"), "'zzzz' names no stored run"),
    ],
)
def test_an_anchor_that_is_not_meant_so_is_a_usage_error(
    history: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code, _, err = action(capsys, history, "anchor", *arguments)
    assert code == 2
    assert says in err


def test_learn_takes_pairs_of_one_commit_once(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = action(capsys, history, "learn")
    assert "learnt from 1 A/A pairs of fp8 under chat" in out
    assert "nothing to learn from" in action(capsys, history, "learn")[1]
    assert "ttft_p50" in action(capsys, history, "learn", "--show")[1]


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_a_number_that_is_none_is_refused(
    history: Path, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["history", "list", f"--last={number}"])
    assert stopped.value.code == 2
    assert "not a whole number above 0" in capsys.readouterr().err


def test_trend_tells_the_commits_and_the_distance_from_an_anchor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cpu = environment(hardware=Hardware(cpu_model="EPYC", cpu_count=2))
    for number in range(20):
        value = (200.0 if number < 10 else 240.0) + number % 3
        one = record(
            series(value=value),
            run_id=f"run{number:02d}",
            created=at(number),
            commit=f"{number:040x}"[::-1],
            env=cpu,
        )
        Store(tmp_path).save(one)
    assert "EPYC (2 cores)" in action(capsys, tmp_path, "list")[1]
    action(capsys, tmp_path, "anchor", "release", "run00")
    _, out, _ = action(capsys, tmp_path, "trend")
    assert "commits 900000000..a00000000" in out
    assert "from anchor release: +" in out
    assert "further than allowed and than noise" in out


def test_a_reader_that_has_seen_enough_is_no_error(history: Path) -> None:
    words = [sys.executable, "-m", "vllm_perf.cli", "history", "list", "--history", str(history)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()  # long before the first line
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == ("", 141)
