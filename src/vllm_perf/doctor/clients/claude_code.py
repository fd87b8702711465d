# SPDX-License-Identifier: Apache-2.0
"""Claude Code: variables in ``settings.json`` (``env``), in a ``.env`` file, or a stored OAuth login."""

from collections.abc import Mapping
from typing import Any

from vllm_perf.doctor.clients.settings import ClientSettings, KeyState, key_state, text

_MODELS = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
)


def read_claude_code(data: Mapping[str, Any], *, source: str) -> ClientSettings:
    """Read one settings file; variables may stand under ``env`` or, as in a ``.env`` file, at the top."""
    nested = data.get("env")
    env: Mapping[str, Any] = nested if isinstance(nested, dict) else data
    token = key_state(env.get("ANTHROPIC_AUTH_TOKEN"), "ANTHROPIC_AUTH_TOKEN")
    api_key = key_state(env.get("ANTHROPIC_API_KEY"), "ANTHROPIC_API_KEY", "x-api-key")
    # A command that prints the key: what it prints is not known here.
    helper = KeyState(where="apiKeyHelper") if text(data.get("apiKeyHelper")) else None
    stored = _login(data)
    key = token or helper or api_key
    conflict = None
    if token and api_key:
        conflict = (
            "both ANTHROPIC_AUTH_TOKEN (sent in the Authorization header, which wins at vLLM) and "
            "ANTHROPIC_API_KEY "
            "(sent as x-api-key) are set"
        )
    elif stored and key is not None:
        conflict = f"both {key.where} and a stored OAuth login are set; the variable wins while it is set"
    return ClientSettings(
        client="Claude Code",
        source=source,
        base_url=text(env.get("ANTHROPIC_BASE_URL")),
        base_url_key="ANTHROPIC_BASE_URL",
        key=key,
        key_name="ANTHROPIC_AUTH_TOKEN",
        model=next((found for found in map(text, map(env.get, _MODELS)) if found), text(data.get("model"))),
        model_key="ANTHROPIC_MODEL",
        wants_v1=False,
        oauth=stored if key is None else None,
        conflict=conflict,
    )


def _login(data: Mapping[str, Any]) -> str | None:
    """Return where a login is stored: tokens in ``.credentials.json``, or an account in ``.claude.json``."""
    tokens, account = data.get("claudeAiOauth"), data.get("oauthAccount")
    if isinstance(tokens, dict) and text(tokens.get("accessToken")) is not None:
        return "claudeAiOauth"
    return "oauthAccount" if isinstance(account, dict) and account else None
