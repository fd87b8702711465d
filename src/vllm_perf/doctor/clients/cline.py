# SPDX-License-Identifier: Apache-2.0
"""Cline: the OpenAI-compatible provider's settings in its state file, or prefixed in an editor's settings."""

from collections.abc import Mapping
from typing import Any

from vllm_perf.doctor.clients.settings import ClientSettings, key_state, text

_OPENAI = ("openai", "openai-compatible", "openai_compatible")
# Providers that log in by an account instead of a key.
_ACCOUNTS = ("cline", "openai-codex", "claude-code", "vscode-lm", "qwen-code", "oca")


def read_cline(data: Mapping[str, Any], *, source: str) -> ClientSettings:
    """Read Cline's state, its export or an editor's ``cline.*`` settings; Act mode's values come first."""
    values = _flat(data)

    def first(*names: str) -> str | None:
        return next((found for found in (text(values.get(name.lower())) for name in names) if found), None)

    provider = first("actModeApiProvider", "apiProvider", "planModeApiProvider")
    key_names = ("openAiApiKey", "openAiCompatible.apiKey", "apiKey", "api_key")
    is_account = provider is not None and provider.lower() in _ACCOUNTS
    return ClientSettings(
        client="Cline",
        source=source,
        base_url=first("openAiBaseUrl", "openAiCompatible.baseUrl", "baseUrl", "base_url"),
        base_url_key="openAiBaseUrl",
        key=next((state for name in key_names if (state := key_state(first(name), name))), None),
        key_name="openAiApiKey",
        model=first(
            "actModeOpenAiModelId", "openAiModelId", "planModeOpenAiModelId", "openAiCompatible.modelId",
            "modelId", "model",
        ),
        model_key="openAiModelId",
        oauth=f"provider '{provider}'" if is_account else None,
        provider=provider if provider and not is_account and provider.lower() not in _OPENAI else None,
    )  # fmt: skip


def _flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with lower-case names, nested ones too, the prefix ``cline.`` left out."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        bare = name.lower().removeprefix("cline.")
        if isinstance(value, dict) and bare in (
            "apiconfiguration",
            "globalstate",
            "secrets",
            "cline",
            "settings",
        ):
            flat.update(_flat(value))
        else:
            flat[bare] = value
    return flat
