# SPDX-License-Identifier: Apache-2.0
"""The options of a gate run within pytest: which two sides, and how much may be measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SIDES = "BASE..HEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSide:
    """One side as it was named: an engine of a file, and the interpreter that serves it, if any."""

    engine: str
    engines_file: Path
    python: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateChoice:
    """What ``--perf-gate`` asks for; ``None`` is the gate's own default."""

    base: GateSide
    head: GateSide
    min_pairs: int | None
    max_pairs: int | None
    max_minutes: float | None
    allowed: float | None


def read_gate(root: Path, raw: Mapping[str, Any], allowed: float | None) -> GateChoice | None:
    """Return the gate that was asked for, or ``None``; ``raw`` is by name without ``--perf-``.

    Raises:
        pytest.UsageError: the two sides, or a number, cannot be read.
    """
    if raw["gate"] is None:
        return None
    base, dots, head = str(raw["gate"]).partition("..")
    if not (base and dots and head) or ".." in head:
        raise pytest.UsageError(f"--perf-gate: '{raw['gate']}' is not two engines as {SIDES}")
    return GateChoice(
        base=_side("base", base, root, raw),
        head=_side("head", head, root, raw),
        min_pairs=_number("min-pairs", raw, int),
        max_pairs=_number("max-pairs", raw, int),
        max_minutes=_number("max-minutes", raw, float),
        allowed=allowed,
    )


def _side(side: str, engine: str, root: Path, raw: Mapping[str, Any]) -> GateSide:
    file = raw[f"gate-{side}-engines"] or raw["engines-file"]
    return GateSide(engine=engine, engines_file=root / file, python=raw[f"gate-{side}-python"])


def _number(name: str, raw: Mapping[str, Any], kind: type[int] | type[float]) -> Any:
    text = raw[f"gate-{name}"]
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        raise pytest.UsageError(f"--perf-gate-{name}: '{text}' is not a number") from None
