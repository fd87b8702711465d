# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, held by a test: imports one way, small files, small functions, few parameters."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "vllm_perf"
FILES = sorted(PACKAGE.rglob("*.py"))
# A package may import those before it in this list, and none after it.
LAYERS = (
    "spec",
    "clock",
    "diagnosis",
    "golden",
    "load",
    "engine",
    "metrics",
    "verdict",
    "history",
    "lab",
    "report",
    "channel",
    "gate",
    "doctor",
    "pytest_plugin",
    "commands",
    "cli",
)
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 6
# An HTTP answer and what was asked, each by name: a class of its own would only be unpacked again.
MANY_PARAMETERS = {"classify_response": 8}


def layer(path: Path) -> str:
    """Return the package a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    """Return the packages of ours that a module imports, wherever in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("vllm_perf."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("vllm_perf.")}
    return names


def test_there_are_files_to_check() -> None:
    assert len(FILES) > 100


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_keeps_the_rules(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    own = layer(path)
    if own != "__init__":
        above = {name for name in imported(tree) if LAYERS.index(name) > LAYERS.index(own)}
        assert not above, f"{own} imports {above}, which come after it"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < MAX_FUNCTION_LINES, node.name
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            counted = [one for one in arguments if one.arg not in ("self", "cls")]
            allowed = MANY_PARAMETERS.get(node.name, MAX_PARAMETERS)
            assert len(counted) <= allowed, f"{node.name} has {len(counted)} parameters"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_plugin_knows_pytest(path: Path) -> None:
    if layer(path) == "pytest_plugin":
        return
    tree = ast.parse(path.read_text())
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not {
        name for name in names if name.split(".")[0] in ("pytest", "_pytest", "xdist", "pytest_benchmark")
    }
