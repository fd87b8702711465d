# SPDX-License-Identifier: Apache-2.0
"""Find the name that somebody must have meant."""

import difflib
from collections.abc import Iterable


def nearest_name(wanted: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the one of ``names`` that is nearest to ``wanted``, case aside, or ``None``."""
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wanted.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None
