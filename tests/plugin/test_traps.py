# SPDX-License-Identifier: Apache-2.0
"""No trap without a test, no test without a trap."""

import ast
import re
from pathlib import Path

from tests.plugin.traps import CASES, TRAPS

ID = re.compile(r"(?<=_)(?:pb|h)\d\d(?=_)")


def names_by_id() -> dict[str, list[str]]:
    """Return the tests beside this file that are named by each id."""
    found: dict[str, list[str]] = {}
    for path in Path(__file__).parent.glob("test_traps_*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for name in ID.findall(node.name) or [node.name]:
                    found.setdefault(name, []).append(node.name)
    return found


def test_every_trap_and_every_case_has_a_test_of_its_name() -> None:
    assert names_by_id().keys() == {*TRAPS, *CASES}
