# SPDX-License-Identifier: Apache-2.0
"""Read the line of statistics that vLLM logs every few seconds, in all its dialects (case H58)."""

import re

_ITEM = re.compile(r"([A-Z][A-Za-z ]*?): (\d+(?:\.\d+)?)\s*(%|[A-Za-z/]*)")
# V0 said Pending where V1 says Waiting.
_SAME = {"pending": "waiting"}


def parse_stats_line(line: str) -> dict[str, float] | None:
    """Return the line's numbers by name (``running``, ``waiting``…), ``None`` if it is another line.

    Percentages become shares. A name that the dialect lacks is not in the result.
    """
    start = line.find("Avg prompt throughput:")
    if start < 0:
        return None
    found: dict[str, float] = {}
    for name, number, unit in _ITEM.findall(line[start:]):
        key = name.strip().lower().replace(" ", "_")
        found[_SAME.get(key, key)] = float(number) / 100 if unit == "%" else float(number)
    return found
