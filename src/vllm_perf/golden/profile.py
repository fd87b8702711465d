# SPDX-License-Identifier: Apache-2.0
"""What a golden engine is told: the timing of each answer, its noise, and the server around it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

UsagePlace = Literal["chunk", "finish", "none"]


class ProfileError(ValueError):
    """Report a request for timing that does not exist or is of the wrong type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The shape of one answer; a request overrides any field by name.

    ``role_ms``: the role chunk, ``None`` for none. ``ttft_ms``: the first chunk with payload; a chunk of k
    tokens comes k times ``itl_ms`` after the one before. ``stop_after``: tokens until the model
    stops by itself (not with ``ignore_eos``). ``reasoning_tokens``: so many first ones go to
    ``reasoning_field``. ``empty_every``: every so manieth token decodes to nothing. ``usage``: where usage
    goes when asked for. ``usage_delay_ms``: how late the usage chunk is. ``prefill_us``: added to TTFT for
    each prompt token that is not cached. ``fault``: a case of ``golden.faults`` instead of an answer, with
    its times multiplied by ``time_scale``.
    """

    ttft_ms: float = 50.0
    itl_ms: float = 10.0
    tokens_per_chunk: int = 1
    first_chunk_tokens: int | None = None
    role_ms: float | None = 0.0
    stop_after: int | None = None
    reasoning_tokens: int = 0
    reasoning_field: str = "reasoning"
    empty_every: int = 0
    usage: UsagePlace = "chunk"
    usage_delay_ms: float = 0.0
    finish_apart: bool = False
    prefill_us: float = 0.0
    fault: str | None = None
    time_scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Seeded noise on TTFT and ITL, for studies of gates; all zero is none.

    The factor of request i is ``boot · exp(request_sigma · z_i) · (1 + drift · i)`` with ``boot`` lognormal
    of ``boot_sigma`` drawn from (``seed``, ``boot``), ``z_i`` standard normal with correlation
    ``autocorrelation`` between neighbours. ``token_sigma`` is a lognormal on every single gap.
    """

    seed: int = 0
    boot: int = 0
    boot_sigma: float = 0.0
    request_sigma: float = 0.0
    autocorrelation: float = 0.0
    drift: float = 0.0
    token_sigma: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The server around the answers.

    ``max_num_seqs`` requests run at once, the others queue. ``cold_ms`` is added to the first one's TTFT.
    ``kernel_stamps``: take the time of receipt from the kernel where it gives one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    model: str = "golden"
    api_key: str | None = None
    max_model_len: int = 131_072
    max_num_seqs: int = 1_000_000
    block_size: int = 16
    cache_blocks: int = 65_536
    prefix_caching: bool = True
    per_request_metrics: bool = False
    cold_ms: float = 0.0
    kernel_stamps: bool = True
    cert_file: str | None = None
    key_file: str | None = None


Data = TypeVar("Data", Profile, Noise, ServerOptions)


def override(data: Data, wishes: Mapping[str, Any]) -> Data:
    """Return ``data`` with some fields replaced; strings (from headers, URLs, options) are read as numbers.

    Raises:
        ProfileError: a wish names no field, or its value is of the wrong type.
    """
    known = {field.name: field for field in fields(data)}
    values: dict[str, Any] = {}
    for name, value in wishes.items():
        if name not in known:
            raise ProfileError(f"golden: unknown field '{name}'; known: {', '.join(known)}")
        values[name] = _value(name, value, str(known[name].type))
    return replace(data, **values) if values else data


def _value(name: str, value: Any, annotation: str) -> Any:
    if value is None or (value in ("none", "null") and "None" in annotation):
        return None
    try:
        if "bool" in annotation:
            return value if isinstance(value, bool) else {"true": True, "false": False}[str(value)]
        if "int" in annotation and not isinstance(value, float):
            return int(value)
        if "float" in annotation:
            return float(value)
    except (ValueError, TypeError, KeyError) as error:
        raise ProfileError(f"golden: field '{name}' cannot be {value!r}") from error
    if isinstance(value, str) and "int" not in annotation:
        return value
    raise ProfileError(f"golden: field '{name}' cannot be {value!r}")
