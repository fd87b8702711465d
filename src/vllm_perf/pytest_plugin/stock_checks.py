# SPDX-License-Identifier: Apache-2.0
"""Make pytest-benchmark's own comparison safe for our rows.

Left alone it compares with the latest file whatever became of that run, so that the second run of a slow
commit passes, and it ends a session by raising from the terminal summary, so that JUnit shows no failure.
Here a row's partner is the newest one that passed, and ``--benchmark-compare-fail`` fails the row's own test.
"""

from collections.abc import Iterable, Iterator
from typing import Any

OK = "ok"
# How many files back a partner is looked for: each is read whole.
MOST_FILES = 20


class OthersOnly:
    """Hold one check of ``--benchmark-compare-fail`` against everybody's rows but ours."""

    def __init__(self, check: Any, ours: Iterable[str]) -> None:
        self._check, self._ours = check, frozenset(ours)

    def fails(self, current: Any, compared: Any) -> str | None:
        """Return what the check says, nothing for a row whose own test has been judged already."""
        if current.fullname in self._ours:
            return None
        said: str | None = self._check.fails(current, compared)
        return said


def take_over(session: Any, fullnames: Iterable[str]) -> None:
    """Settle the partners of our rows, and let only other rows fail at the end of the session.

    With nothing stored yet there is nothing to fail: the first run makes the baseline.
    """
    ours = tuple(fullnames)
    for fullname in ours:
        settle(session, fullname)
    if session.compare_fail:
        checks = [OthersOnly(check, ours) for check in session.compare_fail]
        session.compare_fail = checks if session.compared_mapping else []


def settle(session: Any, fullname: str) -> None:
    """Take a failed partner away; where the latest run was asked for, find an older one that passed."""
    mapping: dict[Any, dict[str, Any]] = session.compared_mapping or {}
    found = False
    for entries in mapping.values():
        if fullname in entries and not _passed(entries[fullname]):
            del entries[fullname]
        found = found or fullname in entries
    if found or session.compare is not True:
        return
    for path, entries in _older(session):
        if fullname in entries and _passed(entries[fullname]):
            mapping.setdefault(path, {})[fullname] = entries[fullname]
            return


def failure(session: Any, row: Any) -> str | None:
    """Return what ``--benchmark-compare-fail`` says against a row, or ``None``."""
    if not session.compare or not session.compare_fail:
        return None
    settle(session, row.fullname)
    for path, entries in (session.compared_mapping or {}).items():
        partner = entries.get(row.fullname)
        for check in session.compare_fail if partner else ():
            said = check.fails(row, {**partner, **partner["stats"]})
            if said:
                return f"--benchmark-compare-fail: {row.name}: {said} (compared with {path})"
    return None


def _passed(entry: dict[str, Any]) -> bool:
    return bool(entry.get("extra_info", {}).get("status", OK) == OK)


def _older(session: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the stored files from the newest back; none where they are not files."""
    query = getattr(session.storage, "query", None)
    files = query("[0-9][0-9][0-9][0-9]_*") if query else []
    for file in list(reversed(files))[:MOST_FILES]:
        for path, data in session.storage.load(str(file)):
            yield path, {entry["fullname"]: entry for entry in data["benchmarks"]}
