# SPDX-License-Identifier: Apache-2.0
"""Settings of Codex, Claude Code, Cline and CC Switch: what is wrong, and never the key."""

import json
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.diagnosis.redact import MASK
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.clients.files import check_client_config
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category

# Marked, and nowhere valid.
KEY = "sk-" + "MARKED0123456789"
TOKENS = {
    "id_token": "MARKED-id",
    "access_token": "MARKED-access",
    "refresh_token": "MARKED-r",
    "account_id": "a",
}
URL = "http://127.0.0.1:8000/v1"
ROOT = "http://127.0.0.1:8000"
CODEX_TOML = f'model = "m"\nmodel_provider = "local"\n[model_providers.local]\nbase_url = "{URL}"\n'
TOML_WITH_VARIABLE = CODEX_TOML + 'env_key = "LOCAL_KEY"\n'


def claude(**env: str) -> dict[str, Any]:
    return {"env": {"ANTHROPIC_BASE_URL": ROOT, "ANTHROPIC_MODEL": "m", **env}}


def cline(**values: str) -> dict[str, Any]:
    return {
        "openAiBaseUrl": URL,
        "openAiApiKey": KEY,
        "openAiModelId": "m",
        "apiProvider": "openai",
        **values,
    }


def switch(claude_settings: Any = None, codex_settings: Any = None) -> dict[str, Any]:
    data: dict[str, Any] = {"version": 2}
    for app, settings in (("claude", claude_settings), ("codex", codex_settings)):
        if settings is not None:
            other = {"name": "unused", "settingsConfig": {}}
            providers = {"a": other, "b": {"name": "Used", "settingsConfig": settings}}
            data[app] = {"current": "b", "providers": providers}
    return data


def check(
    tmp_path: Path, files: dict[str, Any], env: dict[str, str] | None = None, **known: Any
) -> Diagnosis:
    """Write ``files`` and judge the first of them."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = check_client_config(tmp_path / next(iter(files)), known.get("client"), env or {})
    assert "MARKED" not in found.paragraph()
    assert MASK not in found.cause + found.remedy
    return found


CASES: dict[str, tuple[dict[str, Any], Category]] = {
    "H49 login": ({"auth.json": {"OPENAI_API_KEY": None, "tokens": TOKENS}}, Category.AUTH_MODE_OAUTH),
    "H49 login, marked": (
        {"auth.json": {"OPENAI_API_KEY": KEY, "tokens": TOKENS, "auth_mode": "chatgpt"}},
        Category.AUTH_MODE_OAUTH,
    ),
    "H49 key alone": ({"auth.json": {"OPENAI_API_KEY": KEY}}, Category.CLIENT_CONFIG_INCOMPLETE),
    "H49 key and login": ({"auth.json": {"OPENAI_API_KEY": KEY, "tokens": TOKENS}}, Category.AUTH_CONFLICT),
    "H49 nothing": ({"auth.json": {"OPENAI_API_KEY": None, "tokens": {}}}, Category.CLIENT_CONFIG_INCOMPLETE),
    "H49 empty tokens": (
        {"auth.json": {"OPENAI_API_KEY": None, "tokens": ""}},
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "H49 null tokens": (
        {"auth.json": {"OPENAI_API_KEY": None, "tokens": None}},
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "codex, key with empty tokens": (
        {"auth.json": {"OPENAI_API_KEY": KEY, "tokens": {}}, "config.toml": CODEX_TOML},
        Category.OK,
    ),
    "codex, marked as key mode": (
        {
            "auth.json": {"OPENAI_API_KEY": KEY, "tokens": TOKENS, "auth_mode": "apikey"},
            "config.toml": CODEX_TOML,
        },
        Category.OK,
    ),
    "codex, config with its auth": (
        {"config.toml": CODEX_TOML, "auth.json": {"OPENAI_API_KEY": KEY}},
        Category.OK,
    ),
    "codex, all three in one file": (
        {"auth.json": {"base_url": URL, "api_key": KEY, "model": "m"}},
        Category.OK,
    ),
    "codex without /v1": (
        {"auth.json": {"base_url": ROOT, "api_key": KEY, "model": "m"}},
        Category.BASE_URL_MISSING_V1,
    ),
    "codex with the endpoint": (
        {"auth.json": {"base_url": URL + "/responses", "api_key": KEY, "model": "m"}},
        Category.BASE_URL_HAS_ENDPOINT,
    ),
    "codex without a model": (
        {"auth.json": {"base_url": URL, "api_key": KEY}},
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "codex, newline in the key": (
        {"auth.json": {"base_url": URL, "api_key": KEY + "\n", "model": "m"}},
        Category.KEY_MALFORMED,
    ),
    "codex, key in a variable that is not set": (
        {"config.toml": TOML_WITH_VARIABLE},
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "H50 token and key": (
        {"settings.json": claude(ANTHROPIC_AUTH_TOKEN=KEY, ANTHROPIC_API_KEY=KEY)},
        Category.AUTH_CONFLICT,
    ),
    "H50 token and login": (
        {"settings.json": {**claude(ANTHROPIC_AUTH_TOKEN=KEY), "claudeAiOauth": {"accessToken": "MARKED"}}},
        Category.AUTH_CONFLICT,
    ),
    "H50 login alone": (
        {".credentials.json": {"claudeAiOauth": {"accessToken": "MARKED"}}},
        Category.AUTH_MODE_OAUTH,
    ),
    "H50 base URL without a token": ({"settings.json": claude()}, Category.CLIENT_CONFIG_INCOMPLETE),
    "H51 key instead of token": (
        {"settings.json": claude(ANTHROPIC_API_KEY=KEY)},
        Category.AUTH_WRONG_HEADER,
    ),
    "claude code, right": ({"settings.json": claude(ANTHROPIC_AUTH_TOKEN=KEY)}, Category.OK),
    "claude code, key from a helper": (
        {"settings.json": {**claude(), "apiKeyHelper": "cat /k"}},
        Category.OK,
    ),
    "claude code with /v1": (
        {"settings.json": claude(ANTHROPIC_AUTH_TOKEN=KEY, ANTHROPIC_BASE_URL=URL)},
        Category.BASE_URL_HAS_ENDPOINT,
    ),
    "claude code, .env": (
        {".env": f"export ANTHROPIC_BASE_URL={ROOT}\nANTHROPIC_AUTH_TOKEN='{KEY}'\nANTHROPIC_MODEL=m\n"},
        Category.OK,
    ),
    "H52 cline without /v1": ({"state.json": cline(openAiBaseUrl=ROOT)}, Category.BASE_URL_MISSING_V1),
    "cline, right": ({"state.json": cline()}, Category.OK),
    "cline, by its account": ({"state.json": cline(apiProvider="cline")}, Category.AUTH_MODE_OAUTH),
    "cline, other provider": ({"state.json": cline(apiProvider="ollama")}, Category.CLIENT_CONFIG_INCOMPLETE),
    "cline, key in its secrets": (
        {
            "globalState.json": {
                "actModeApiProvider": "openai",
                "actModeOpenAiModelId": "m",
                "openAiBaseUrl": URL,
            },
            "secrets.json": {"openAiApiKey": KEY},
        },
        Category.OK,
    ),
    "cline, in an editor's settings with comments": (
        {
            "settings.json": '{\n // for the lab\n "cline.apiProvider": "openai-compatible",\n '
            f'"cline.openAiCompatible.baseUrl": "{URL}", /* yes */\n '
            f'"cline.openAiCompatible.apiKey": "{KEY}",\n '
            '"cline.openAiCompatible.modelId": "m"\n}'
        },
        Category.OK,
    ),
    "cc switch, both right": (
        {
            "config.json": switch(
                claude(ANTHROPIC_AUTH_TOKEN=KEY), {"auth": {"OPENAI_API_KEY": KEY}, "config": CODEX_TOML}
            )
        },
        Category.OK,
    ),
    "cc switch, codex without /v1": (
        {
            "config.json": switch(
                claude(ANTHROPIC_AUTH_TOKEN=KEY),
                {"auth": {"OPENAI_API_KEY": KEY}, "config": CODEX_TOML.replace("/v1", "")},
            )
        },
        Category.BASE_URL_MISSING_V1,
    ),
    "cc switch, codex login": (
        {"config.json": switch(None, {"auth": {"tokens": TOKENS}, "config": CODEX_TOML})},
        Category.AUTH_MODE_OAUTH,
    ),
    "cc switch, list of providers": (
        {
            "export.json": {
                "app": "claude",
                "currentProviderId": "p",
                "providers": [{"id": "p", "name": "P", "settingsConfig": claude()}],
            }
        },
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "claude code, account of a login": (
        {".claude.json": {"oauthAccount": {"emailAddress": "MARKED@example.org"}}},
        Category.AUTH_MODE_OAUTH,
    ),
    "codex, config without a provider": (
        {"config.toml": 'model = "m"\n'},
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "cline, key under another name": (
        {"cline.json": cline(apiProvider="anthropic")},
        Category.CLIENT_CONFIG_INCOMPLETE,
    ),
    "not JSON": ({"auth.json": "{oops"}, Category.CLIENT_CONFIG_INCOMPLETE),
}


@pytest.mark.parametrize(("files", "category"), CASES.values(), ids=CASES.keys())
def test_settings_get_their_category(tmp_path: Path, files: dict[str, Any], category: Category) -> None:
    assert check(tmp_path, files).category is category


def test_incomplete_settings_name_everything_that_is_missing(tmp_path: Path) -> None:
    assert "base_url and model" in check(tmp_path, {"auth.json": {"OPENAI_API_KEY": KEY}}).cause


def test_key_of_codex_may_come_from_the_environment(tmp_path: Path) -> None:
    found = check(tmp_path, {"config.toml": TOML_WITH_VARIABLE}, env={"LOCAL_KEY": KEY})
    assert found.category is Category.OK
    assert "environment variable LOCAL_KEY" in found.evidence


def test_h50_names_both_sources_and_which_wins(tmp_path: Path) -> None:
    cause = check(tmp_path, {"settings.json": claude(ANTHROPIC_AUTH_TOKEN=KEY, ANTHROPIC_API_KEY=KEY)}).cause
    assert "ANTHROPIC_AUTH_TOKEN" in cause
    assert "ANTHROPIC_API_KEY" in cause
    assert "wins" in cause


def test_claude_codes_base_url_is_corrected_to_one_without_v1(tmp_path: Path) -> None:
    found = check(tmp_path, {"settings.json": claude(ANTHROPIC_AUTH_TOKEN=KEY, ANTHROPIC_BASE_URL=URL)})
    assert found.remedy == f"use {ROOT}"


def test_credentials_inside_a_base_url_are_hidden(tmp_path: Path) -> None:
    check(tmp_path, {"auth.json": {"base_url": "http://me:MARKED@h:8000", "api_key": KEY, "model": "m"}})


def test_file_of_nobody_is_a_usage_error_that_lists_the_clients(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(SpecError, match=r"--client codex\|claude-code\|cline\|cc-switch"):
        check_client_config(tmp_path / "x.json", None, {})


def test_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        check_client_config(tmp_path / "auth.json", None, {})


def test_client_can_be_named_where_the_file_does_not_tell(tmp_path: Path) -> None:
    found = check(tmp_path, {"x.json": {"baseUrl": URL, "apiKey": KEY, "modelId": "m"}}, client="cline")
    assert found.category is Category.OK
