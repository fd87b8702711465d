# SPDX-License-Identifier: Apache-2.0
"""What a channel is: an OpenAI-compatible API behind one base URL, its prices and its limits, as data."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from vllm_perf.spec.base import SpecError, SpecModel, parse, read_toml
from vllm_perf.spec.files import pick, refuse_unknown

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY_FIELDS = ("api_key", "key", "apikey", "token", "api-key")


class Prices(SpecModel):
    """What a channel charges for a million tokens, in ``currency``."""

    currency: str = "USD"
    prompt_per_million: float = Field(default=0.0, ge=0)
    output_per_million: float = Field(default=0.0, ge=0)

    @property
    def free(self) -> bool:
        """Tell whether nothing is charged."""
        return self.prompt_per_million == 0 and self.output_per_million == 0


class RateLimits(SpecModel):
    """What a channel allows; ``None`` means that no limit is known."""

    requests_per_min: float | None = Field(default=None, gt=0)
    tokens_per_min: float | None = Field(default=None, gt=0)
    max_concurrency: int | None = Field(default=None, ge=1)


class ChannelSpec(SpecModel):
    """One channel. The key itself stands in no file: ``key_env`` names the variable that holds it.

    ``model = ""`` asks for the first model that the server lists. ``prices = None``: unknown, so that no
    spend can be bounded. ``spend_cap`` is the most one comparison may cost, in the prices' currency.
    """

    name: str
    title: str = ""
    base_url: str
    model: str = ""
    key_env: str | None = None
    prices: Prices | None = None
    limits: RateLimits = RateLimits()
    spend_cap: float | None = Field(default=None, ge=0)
    ca_file: str | None = None
    proxy: str | None = None
    notes: str = ""


def load_channels(path: Path) -> dict[str, ChannelSpec]:
    """Read a channels file.

    Raises:
        SpecError: unreadable, an unknown key, a wrong value, or a secret where none may stand.
    """
    data = read_toml(path)
    refuse_unknown(data, ("channels",), str(path))
    channels = {}
    for name, table in data.get("channels", {}).items():
        where = f"{path}: [channels.{name}]"
        _refuse_secrets(table, where)
        channels[name] = parse(ChannelSpec, {"name": name, **table}, where)
    return channels


def find_channel(path: Path, name: str) -> ChannelSpec:
    """Return one channel of a file.

    Raises:
        SpecError: as ``load_channels`` does, or there is none of that name.
    """
    return pick(load_channels(path), name, f"{path}: channel")


def _refuse_secrets(table: dict[str, Any], where: str) -> None:
    """Refuse keys in the file before anything could print them."""
    for field in _KEY_FIELDS:
        if field in table:
            raise SpecError(
                f"{where}: '{field}' would put a key into a file; export the key and name its variable:"
                ' key_env = "MY_CHANNEL_KEY"'
            )
    variable = table.get("key_env")
    if variable is not None and not (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
        raise SpecError(
            f"{where}: 'key_env' is not the name of an environment variable; if the key itself stands there,"
            " take it out, export it, and name the variable"
        )
    for field in ("base_url", "proxy"):
        url = table.get(field)
        if isinstance(url, str) and "@" in urlsplit(url).netloc:
            raise SpecError(f"{where}: '{field}' holds a user or password; no secret may stand in this file")
