# SPDX-License-Identifier: Apache-2.0
"""Read a client's settings file, recognise whose it is, and judge it."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.clients.cc_switch import read_cc_switch
from vllm_perf.doctor.clients.claude_code import read_claude_code
from vllm_perf.doctor.clients.cline import read_cline
from vllm_perf.doctor.clients.codex import read_codex
from vllm_perf.doctor.clients.judge import judge
from vllm_perf.doctor.clients.settings import ClientName, ClientSettings
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$", re.MULTILINE)


def check_client_config(path: Path, client: ClientName | None, env: Mapping[str, str]) -> Diagnosis:
    """Judge the file at ``path``; ``client`` is recognised from its name and contents where it is not given.

    Raises:
        SpecError: the file cannot be opened, or nobody's settings are recognised in it.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    data = _parse(path, content)
    if data is None:
        unread = _why_unread(path, content)
        return judge(ClientSettings(client=client or "the client", source=path.name, unread=unread))
    name = client or recognise(path, data)
    verdicts = [judge(settings) for settings in _read(name, path, data, env)]
    return next((verdict for verdict in verdicts if verdict.category is not Category.OK), verdicts[0])


def recognise(path: Path, data: Mapping[str, Any]) -> ClientName:
    """Return whose settings these are.

    Raises:
        SpecError: nothing in name or contents tells.
    """
    keys = {key.lower() for key in data}
    nested = data.get("env")
    variables = {key.upper() for key in nested} if isinstance(nested, dict) else {key.upper() for key in data}
    if "providers" in keys or any(_has_providers(data.get(app)) for app in ("claude", "codex")):
        return "cc-switch"
    if any(name.startswith("ANTHROPIC_") for name in variables) or keys & {"claudeaioauth", "apikeyhelper"}:
        return "claude-code"
    if any("openaibaseurl" in key or "apiprovider" in key or key.startswith("cline") for key in keys):
        return "cline"
    if path.name in ("auth.json", "config.toml") or keys & {
        "openai_api_key",
        "tokens",
        "model_providers",
        "model_provider",
    }:
        return "codex"
    if path.parent.name == ".claude" or path.name.startswith(".claude"):
        return "claude-code"
    raise SpecError(
        f"{path}: whose settings these are cannot be told; say --client codex|claude-code|cline|cc-switch"
    )


def _has_providers(section: object) -> bool:
    return isinstance(section, dict) and "providers" in section


def _read(
    name: ClientName, path: Path, data: Mapping[str, Any], env: Mapping[str, str]
) -> tuple[ClientSettings, ...]:
    if name == "cc-switch":
        return read_cc_switch(data, source=path.name, env=env)
    if name == "claude-code":
        return (read_claude_code(data, source=path.name),)
    if name == "cline":
        return (read_cline({**_sibling(path, "secrets.json"), **data}, source=path.name),)
    if path.suffix == ".toml":
        auth, config = _sibling(path, "auth.json"), data
    else:
        auth, config = data, _sibling(path, "config.toml")
    return (read_codex(auth, config, source=path.name, env=env),)


def _sibling(path: Path, name: str) -> Mapping[str, Any]:
    """Return the contents of the file that belongs to ``path``, empty where there is none."""
    other = path.with_name(name)
    if other == path or not other.is_file():
        return {}
    return _parse(other, other.read_text(encoding="utf-8-sig")) or {}


def _why_unread(path: Path, content: str) -> str:
    """Return why a file is of no use, with the place; nothing of its contents, which may be a key."""
    if not content.strip():
        return f"{path.name} is empty"
    try:
        if path.suffix == ".toml":
            tomllib.loads(content)
        else:
            json.loads(content)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        return f"{path.name} is no valid TOML ({place[0] if place else 'see its syntax'})"
    except json.JSONDecodeError as error:
        return f"{path.name} is no valid JSON (line {error.lineno}, column {error.colno}: {error.msg})"
    return f"{path.name} holds no settings by name"


def _parse(path: Path, content: str) -> Mapping[str, Any] | None:
    if path.suffix == ".toml":
        try:
            return tomllib.loads(content)
        except tomllib.TOMLDecodeError:
            return None
    try:
        # Editors allow comments in their settings.
        data = json.loads(_COMMENT.sub(lambda match: match[1] or "", content))
    except ValueError:
        pairs = {name: value.strip("'\"") for name, value in _ASSIGNMENT.findall(content)}
        return pairs or None
    return data if isinstance(data, dict) else None
