# SPDX-License-Identifier: Apache-2.0
"""The base of every spec: frozen, complete, and closed to unknown keys."""

import difflib
import tomllib
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class SpecError(ValueError):
    """Report a spec file or value that cannot be used; the message names file, key, value and remedy."""


class SpecModel(BaseModel):
    """Hold validated, immutable data; an unknown key is refused by name."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


def read_toml(path: Path) -> dict[str, Any]:
    """Read one TOML file.

    Raises:
        SpecError: the file is missing, unreadable or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SpecError(f"{path}: cannot be read as TOML: {error}") from error


M = TypeVar("M", bound="SpecModel")


def parse(model: type[M], data: dict[str, Any], where: str) -> M:
    """Validate ``data`` as ``model``; ``where`` says in errors which file and table it came from.

    Raises:
        SpecError: a key is unknown (the nearest known one is suggested), missing or of the wrong type.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = [_explain(model, item) for item in error.errors()]
        raise SpecError(f"{where}: " + "; ".join(lines)) from error


def _explain(model: type[SpecModel], item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "(whole)"
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(item["loc"][-1]), list(model.model_fields), n=1)
        hint = f", did you mean '{near[0]}'?" if near else f"; known keys: {', '.join(model.model_fields)}"
        return f"unknown key '{key}'{hint}"
    return f"'{key}': {item['msg']} (got {item['input']!r})"
