# SPDX-License-Identifier: Apache-2.0
"""What is said about a client's settings: how to complete them, where a file is broken, how to log out."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.doctor.test_clients import KEY, TOKENS, TOML_WITH_VARIABLE, check, claude, cline
from vllm_perf.spec.category import Category


def test_incomplete_settings_say_what_a_vllm_of_ones_own_wants(tmp_path: Path) -> None:
    codex = check(tmp_path, {"auth.json": {"OPENAI_API_KEY": KEY}}).remedy
    assert codex.startswith("set base_url, model; for a vLLM of your own: base URL http://HOST:8000/v1,")
    claude_code = check(tmp_path, {"settings.json": claude()}).remedy
    assert "base URL http://HOST:8000 (without /v1)" in claude_code


def test_variable_that_codex_reads_the_key_from_is_named_where_it_is_not_set(tmp_path: Path) -> None:
    found = check(tmp_path, {"config.toml": TOML_WITH_VARIABLE})
    assert "it lacks the environment variable LOCAL_KEY (its env_key)" in found.cause


UNREAD = {
    "": "auth.json is empty",
    '{"a": 1,}': "auth.json is no valid JSON (line 1, column ",
    f"{{'{KEY}'": "auth.json is no valid JSON (line 1, column 2",
    "[]": "auth.json holds no settings by name",
}


@pytest.mark.parametrize(("content", "why"), UNREAD.items())
def test_file_that_cannot_be_used_says_where_and_shows_nothing(
    tmp_path: Path, content: str, why: str
) -> None:
    found = check(tmp_path, {"auth.json": content})
    assert found.category is Category.CLIENT_CONFIG_INCOMPLETE
    assert why in found.cause


def test_broken_toml_says_where(tmp_path: Path) -> None:
    assert "no valid TOML (at line 1, column" in check(tmp_path, {"config.toml": f"key = {KEY}\n"}).cause


@pytest.mark.parametrize(
    ("files", "way"),
    [
        ({"auth.json": {"tokens": TOKENS}}, "codex logout"),
        ({".credentials.json": {"claudeAiOauth": {"accessToken": "MARKED"}}}, "/logout"),
        ({"state.json": cline(apiProvider="cline")}, "choose the OpenAI-compatible provider"),
    ],
)
def test_login_names_the_way_out_of_it(tmp_path: Path, files: dict[str, Any], way: str) -> None:
    assert way in check(tmp_path, files).remedy
