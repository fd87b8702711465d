# SPDX-License-Identifier: Apache-2.0
"""The ids of the cases that must be covered, from ``case_ids.toml``."""

import tomllib
from pathlib import Path

IDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


def case_ids(group: str) -> tuple[str, ...]:
    """Return the ids of one group: ``streams`` or ``measurement``."""
    return tuple(IDS[group])


def variants(name: str, known: "set[str] | dict[str, object]") -> list[str]:
    """Return the misbehaviours of case ``name``: itself, and ``name-…``."""
    return sorted(one for one in known if one == name or one.startswith(f"{name}-"))
