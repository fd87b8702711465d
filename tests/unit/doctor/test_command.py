# SPDX-License-Identifier: Apache-2.0
"""The command itself: what it prints, and its exit code."""

import json
from pathlib import Path

import pytest

from vllm_perf.cli import main

LOGS = Path(__file__).parents[1] / "diagnosis" / "data" / "logs"
FIELDS = {"category", "healthy", "cause", "evidence", "remedy", "figures", "passed"}


def test_json_of_a_failed_boot_has_the_four_words_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--log", str(LOGS / "cpu-0.32-unknown-flag-dies.log")])
    printed = json.loads(capsys.readouterr().out)
    assert code == 1
    assert set(printed) == FIELDS
    assert printed["category"] == "FLAG_UNKNOWN"
    assert printed["remedy"] == "write --attention-backend"


def test_healthy_log_is_exit_code_0_and_shows_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--log", str(LOGS / "gpu-0.26-awq-boots.log")])
    printed = json.loads(capsys.readouterr().out)
    assert (code, printed["category"]) == (0, "ok")
    assert "FLASH_ATTN" in printed["evidence"]


def test_backend_that_was_ignored_is_found_in_a_log_that_boots(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--log", str(LOGS / "cpu-0.32-flash-attn-requested.log")])
    printed = json.loads(capsys.readouterr().out)
    assert (code, printed["category"]) == (1, "BACKEND_NOT_APPLIED")
    assert printed["passed"] == ["the server boots"]


def test_text_names_each_part_on_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    path = LOGS / "cpu-0.32-real-tp-heads.log"
    assert main(["doctor", "--log", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["category", "cause", "evidence", "remedy", "log"]


def test_client_settings_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "auth.json"
    path.write_text('{"OPENAI_API_KEY": null, "tokens": {"access_token": "MARKED"}}', encoding="utf-8")
    assert main(["doctor", "--json", "--client-config", str(path)]) == 1
    printed = capsys.readouterr().out
    assert json.loads(printed)["category"] == "AUTH_MODE_OAUTH"
    assert "MARKED" not in printed


@pytest.mark.parametrize(
    "options",
    [
        ["--base-url", "http://127.0.0.1:1/v1"],
        ["--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--api-key-env", "NO_SUCH_VARIABLE_4711"],
        ["--log", "/nonexistent/boot.log"],
    ],
)
def test_options_that_do_not_fit_are_a_usage_error(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *options]) == 2
    assert capsys.readouterr().err.startswith("vllm-perf doctor: ")


def test_key_is_read_from_the_environment_and_never_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_KEY", "tstKEY-4711\n")
    assert (
        main(["doctor", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--api-key-env", "LAB_KEY"])
        == 1
    )
    assert "4711" not in capsys.readouterr().out
