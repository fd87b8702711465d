# SPDX-License-Identifier: Apache-2.0
"""Numbers and names in JSON: compact where there are many, exact always.

Per-request values are 64-bit floats, deflated, in base64: a quarter of their decimal text, the same bits
back, infinity included, and readable with the standard library. A sidecar ``.npz`` would need numpy at
collection and would make a record two files, which cannot be written atomically. Equal packs (P50 and P95
of one run are taken from the same samples) are stored once a document, under their digest.
"""

import base64
import hashlib
import json
import math
import sys
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import SerializationInfo, ValidationInfo

INLINE = "z:"


class PackError(ValueError):
    """Say which packed values cannot be read."""


@dataclass(frozen=True, slots=True)
class Packs:
    """A document's table of packs by digest; each is unpacked once, however many series refer to it."""

    packed: dict[str, str] = field(default_factory=dict)
    unpacked: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def number_to_json(value: float) -> float | str:
    """Return ``value`` for strict JSON, which knows no infinity; a NaN is a defect upstream.

    Raises:
        PackError: ``value`` is NaN.
    """
    if math.isnan(value):
        raise PackError("a measured value is NaN")
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def number_from_json(value: Any) -> Any:
    """Undo :func:`number_to_json`."""
    return float(value) if value in ("inf", "-inf") else value


def pack_floats(values: tuple[float, ...]) -> str:
    """Return ``values`` as base64 of deflated little-endian 64-bit floats.

    Raises:
        PackError: one of them is NaN.
    """
    if any(math.isnan(value) for value in values):
        raise PackError("a measured value is NaN")
    data = array("d", values)
    if sys.byteorder == "big":
        data.byteswap()
    return base64.b64encode(zlib.compress(data.tobytes(), 6)).decode("ascii")


def unpack_floats(text: str) -> tuple[float, ...]:
    """Undo :func:`pack_floats`.

    Raises:
        PackError: ``text`` is damaged.
    """
    data = array("d")
    try:
        data.frombytes(zlib.decompress(base64.b64decode(text, validate=True)))
    except (ValueError, zlib.error) as error:
        raise PackError(f"packed values are damaged: {error}") from error
    if sys.byteorder == "big":
        data.byteswap()
    return tuple(data)


def pack_names(names: tuple[str, ...]) -> str:
    """Return ``names`` as base64 of a deflated JSON list."""
    return base64.b64encode(zlib.compress(json.dumps(list(names)).encode(), 6)).decode("ascii")


def unpack_names(text: str) -> tuple[str, ...]:
    """Undo :func:`pack_names`.

    Raises:
        PackError: ``text`` is damaged.
    """
    try:
        return tuple(json.loads(zlib.decompress(base64.b64decode(text, validate=True))))
    except (ValueError, zlib.error) as error:
        raise PackError(f"packed names are damaged: {error}") from error


def share_floats(values: tuple[float, ...], info: SerializationInfo) -> str:
    """Put the pack of ``values`` into the document's table and return its digest."""
    return _share(pack_floats(values), info)


def share_names(names: tuple[str, ...], info: SerializationInfo) -> str:
    """Put the pack of ``names`` into the document's table and return its digest."""
    return _share(pack_names(names), info)


def shared_floats(value: Any, info: ValidationInfo) -> Any:
    """Return what :func:`share_floats` put away."""
    return _shared(value, unpack_floats, info) if isinstance(value, str) else value


def shared_names(value: Any, info: ValidationInfo) -> Any:
    """Return what :func:`share_names` put away."""
    return _shared(value, unpack_names, info) if isinstance(value, str) else value


def _share(packed: str, info: SerializationInfo) -> str:
    if not isinstance(info.context, Packs):  # a part of a record on its own, between two processes
        return INLINE + packed
    digest = hashlib.sha256(packed.encode()).hexdigest()[:16]
    info.context.packed[digest] = packed
    return digest


def _shared(text: str, unpack: Callable[[str], tuple[Any, ...]], info: ValidationInfo) -> tuple[Any, ...]:
    if text.startswith(INLINE):
        return unpack(text.removeprefix(INLINE))
    packs = info.context if isinstance(info.context, Packs) else Packs()
    if text not in packs.unpacked:
        if text not in packs.packed:
            raise PackError(f"packed values {text} are missing from the document")
        packs.unpacked[text] = unpack(packs.packed[text])
    return packs.unpacked[text]
