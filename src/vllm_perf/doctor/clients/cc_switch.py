# SPDX-License-Identifier: Apache-2.0
"""CC Switch: several providers for Claude Code and Codex in one file, one of each in use."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vllm_perf.doctor.clients.claude_code import read_claude_code
from vllm_perf.doctor.clients.codex import read_codex
from vllm_perf.doctor.clients.settings import ClientSettings, text


def read_cc_switch(
    data: Mapping[str, Any], *, source: str, env: Mapping[str, str]
) -> tuple[ClientSettings, ...]:
    """Return the settings of the providers in use, Claude Code's first; all of them where none is marked."""
    found: list[ClientSettings] = []
    for app in ("claude", "codex"):
        section = data.get(app)
        if isinstance(section, dict):
            found += _section(app, section, source, env)
    if not found and "providers" in data:
        found += _section(str(data.get("app") or "claude"), data, source, env)
    if not found:
        return (_nothing(source),)
    return tuple(found)


def _section(
    app: str, section: Mapping[str, Any], source: str, env: Mapping[str, str]
) -> list[ClientSettings]:
    providers = _providers(section.get("providers"))
    current = text(section.get("current")) or text(section.get("currentProviderId"))
    chosen = {current: providers[current]} if current in providers else providers
    return [_one(app, name or "", provider, source, env) for name, provider in chosen.items()]


def _providers(data: object) -> dict[str | None, Mapping[str, Any]]:
    if isinstance(data, dict):
        return {name: entry for name, entry in data.items() if isinstance(entry, dict)}
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    return {text(entry.get("id")) or str(index): entry for index, entry in enumerate(entries)}


def _one(
    app: str, name: str, provider: Mapping[str, Any], source: str, env: Mapping[str, str]
) -> ClientSettings:
    config = provider.get("settingsConfig")
    settings: Mapping[str, Any] = config if isinstance(config, dict) else provider
    where = f"{source}: {app} provider '{text(provider.get('name')) or name}'"
    if app == "codex":
        auth = settings.get("auth")
        read = read_codex(
            auth if isinstance(auth, dict) else {}, _toml(settings.get("config")), source=where, env=env
        )
        return replace(read, client="CC Switch (Codex)")
    return replace(read_claude_code(settings, source=where), client="CC Switch (Claude Code)")


def _toml(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    try:
        return tomllib.loads(value) if isinstance(value, str) else {}
    except tomllib.TOMLDecodeError:
        return {}


def _nothing(source: str) -> ClientSettings:
    return ClientSettings(
        client="CC Switch", source=source, unread="the file holds no provider for Claude Code or Codex"
    )
