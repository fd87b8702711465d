# SPDX-License-Identifier: Apache-2.0
"""A server that prints its key into its own log: read clean at any time, and clean once it has ended."""

import os
import sys
from pathlib import Path

import pytest

from vllm_perf.diagnosis.redact import MASK
from vllm_perf.engine.command import OWNER_VARIABLE
from vllm_perf.engine.kept_log import redact_file, secrets_of
from vllm_perf.engine.process import EngineProcess, new_token
from vllm_perf.engine.state import LiveNote, sweep_orphans

# It looks like no key of anybody: only knowing it can hide it.
MARK = "Planted4711marker"
TALKS = f"""
import os, sys
print("non-default args:", {{"port": 1, "api_key": [os.environ["VLLM_API_KEY"]]}}, flush=True)
print("it was started as", sys.argv, flush=True)
print("RuntimeError: {MARK} is not welcome", flush=True)
sys.stdout.buffer.write(b"\\xff no text\\n")
"""


@pytest.fixture
def talker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineProcess:
    """Start a server that says its key in three ways, and ends by itself."""
    monkeypatch.setenv("VLLM_PERF_STATE_DIR", str(tmp_path / "state"))
    env = {**os.environ, OWNER_VARIABLE: new_token(), "VLLM_API_KEY": MARK}
    argv = [sys.executable, "-c", TALKS, "--api-key", MARK]
    process = EngineProcess.start("talker", argv, env, port=1, log_path=tmp_path / "boot.log")
    process.popen.wait(20)
    return process


def test_the_log_is_read_without_the_key_while_it_is_written(talker: EngineProcess) -> None:
    assert MARK in talker.log_path.read_text("latin-1")
    said = talker.log_text()
    assert MARK not in said
    assert f"RuntimeError: {MASK} is not welcome" in said
    assert MARK not in talker.log_text(last_bytes=60)
    talker.stop()


def test_the_log_that_is_kept_has_no_key_and_nothing_else_is_changed(talker: EngineProcess) -> None:
    talker.stop()
    kept = talker.log_path.read_bytes()
    assert MARK.encode() not in kept
    assert b"non-default args: {'port': 1, 'api_key': ['[redacted]']}" in kept
    assert kept.endswith(b"\xff no text\n")


def test_the_log_of_a_session_that_was_killed_is_cleaned_with_its_engine(talker: EngineProcess) -> None:
    note = talker.note()
    orphan = {name: getattr(note, name) for name in note.__dataclass_fields__} | {"owner_created": 1.0}
    LiveNote(**orphan).write()
    assert len(sweep_orphans()) == 1
    kept = talker.log_path.read_text("latin-1")
    assert "'api_key': [redacted]" in kept
    assert f"--api-key', '{MARK}" not in kept


def test_a_log_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    redact_file(tmp_path / "gone.log", secrets_of(["--api-key", MARK], {}))


def test_the_engines_mark_and_switches_are_no_secrets() -> None:
    env = {OWNER_VARIABLE: "00ff00ff", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN": "hidden-8814"}
    assert secrets_of([], env).secrets == ("hidden-8814",)


def test_a_key_of_bytes_that_are_no_text_is_taken_out() -> None:
    key = b"caf\xe9-4711-key".decode("utf-8", "surrogateescape")
    assert secrets_of([], {"VLLM_API_KEY": key})(f"key {key}!") == f"key {MASK}!"
