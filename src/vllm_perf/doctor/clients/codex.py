# SPDX-License-Identifier: Apache-2.0
"""Codex: ``auth.json`` holds the login, ``config.toml`` beside it the model and its provider."""

from collections.abc import Mapping
from typing import Any

from vllm_perf.doctor.clients.settings import ClientSettings, KeyState, key_state, text


def read_codex(
    auth: Mapping[str, Any], config: Mapping[str, Any], *, source: str, env: Mapping[str, str]
) -> ClientSettings:
    """Read both files' contents; either may be empty. A file with all three in it is taken as it stands."""
    provider = _provider(config)
    key = _key(auth, config, provider, env)
    variable = text(provider.get("env_key"))
    has_login = _has_login(auth)
    mode = str(auth.get("auth_mode") or "").lower()
    uses_login = has_login and (mode == "chatgpt" or key is None)
    both = has_login and key is not None and mode not in ("chatgpt", "apikey")
    return ClientSettings(
        client="Codex",
        source=source,
        base_url=text(provider.get("base_url"))
        or text(config.get("openai_base_url"))
        or text(auth.get("base_url"))
        or text(auth.get("OPENAI_BASE_URL")),
        key=key,
        key_name=f"the environment variable {variable} (its env_key)"
        if variable
        else "OPENAI_API_KEY (auth.json)",
        model=text(config.get("model")) or text(auth.get("model")),
        oauth="tokens in auth.json" if uses_login else None,
        conflict=(
            f"both an API key ({key.where}) and a ChatGPT login (tokens) are stored; which wins "
            f"depends on the "
            "version, and the login ignores the base URL"
        )
        if both and key is not None
        else None,
    )


def _provider(config: Mapping[str, Any]) -> Mapping[str, Any]:
    providers = config.get("model_providers")
    chosen = providers.get(config.get("model_provider")) if isinstance(providers, dict) else None
    if isinstance(chosen, dict):
        return chosen
    # CC Switch and hand-written files put the URL at the top level.
    return {"base_url": config.get("base_url")}


def _key(
    auth: Mapping[str, Any], config: Mapping[str, Any], provider: Mapping[str, Any], env: Mapping[str, str]
) -> KeyState | None:
    variable = text(provider.get("env_key"))
    if variable:
        return key_state(env.get(variable), f"environment variable {variable}")
    return (
        key_state(auth.get("OPENAI_API_KEY"), "auth.json: OPENAI_API_KEY")
        or key_state(auth.get("api_key"), "auth.json: api_key")
        or key_state(provider.get("experimental_bearer_token"), "config.toml: experimental_bearer_token")
        or key_state(config.get("api_key"), "config.toml: api_key")
    )


def _has_login(auth: Mapping[str, Any]) -> bool:
    # `tokens: {}`, `""` and null occur, and mean nothing.
    tokens = auth.get("tokens")
    return isinstance(tokens, dict) and any(text(value) for value in tokens.values())
