# SPDX-License-Identifier: Apache-2.0
"""Every written-down case has a test under its id, that is collected and asserts the case's category."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.spec.category import Category

ROOT = Path(__file__).parents[3]
THEMES: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parent / "data" / "cases.toml").read_text(encoding="utf-8")
)
CASES = {name: case for theme in THEMES.values() for name, case in theme.items()}
# How many there are, so that a case cannot be lost with its line.
NUMBERS = {
    "error-bodies": range(1, 12),
    "boot-failures": range(30, 47),
    "configuration": range(47, 54),
    "process-lifecycle": range(76, 84),
    "network-and-proxies": range(84, 97),
}


def parts(node: str) -> tuple[str, str, str]:
    """Split a test's id into file, function and parameters ("" where it has none)."""
    found = re.fullmatch(r"([^:]+)::(\w+)(?:\[(.*)\])?", node)
    assert found is not None, node
    return found[1], found[2], found[3] or ""


@cache
def source_of(file: str) -> tuple[str, ast.Module]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return text, ast.parse(text)


def segment(node: str) -> str:
    """Return the source of what the test asserts: its row in a table, or else its function."""
    file, function, parameters = parts(node)
    text, tree = source_of(file)
    for part in ast.walk(tree):
        if isinstance(part, ast.Dict) and parameters:
            for key, value in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == parameters:
                    return ast.get_source_segment(text, value) or ""
        elif isinstance(part, ast.FunctionDef) and not parameters and part.name == function:
            return ast.get_source_segment(text, part) or ""
    pytest.fail(f"{file} holds no {node}")


def test_no_case_is_left_out() -> None:
    expected = {theme: {f"H{number:02d}" for number in numbers} for theme, numbers in NUMBERS.items()}
    assert {theme: set(cases) for theme, cases in THEMES.items()} == expected


@pytest.mark.parametrize("name", CASES)
def test_case_is_held_by_a_test_under_its_id(name: str) -> None:
    tests = CASES[name]["tests"]
    assert tests
    for node in tests:
        _, function, parameters = parts(node)
        assert parameters.startswith(name) or f"_{name.lower()}_" in function


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["category"]])
def test_its_test_asserts_the_cases_category(name: str) -> None:
    category = Category(CASES[name]["category"])
    for node in CASES[name]["tests"]:
        assert re.search(rf"\b{category.name}\b", segment(node)), f"{node} does not speak of {category}"


def test_every_named_test_is_collected() -> None:
    wanted = [node for case in CASES.values() for node in case["tests"]]
    files = sorted({parts(node)[0] for node in wanted})
    words = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files)
    run = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    collected = run.stdout.splitlines()
    # A test that is parametrized by other things too is collected several times, as are all its twins.
    missing = [
        node for node in wanted if not any(line == node or line.startswith(f"{node}[") for line in collected)
    ]
    assert missing == []
