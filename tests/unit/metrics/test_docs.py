# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md names every metric, every code, and only tests that exist."""

import re
from pathlib import Path

import pytest

from benchmarks.definition_breaks import SOURCES, Break, load, table
from vllm_perf.metrics.reasons import InvalidCode
from vllm_perf.metrics.table import METRICS

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(test_\w+)`", DOCUMENT)))


def test_the_document_names_tests() -> None:
    assert len(NAMED) > 60


def test_every_test_the_document_names_exists() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in NAMED if f"def {name}(" not in sources] == []


@pytest.mark.parametrize("name", sorted({re.sub(r"_(mean|p\d+|steady)$", "", one.name) for one in METRICS}))
def test_every_metric_is_in_the_document(name: str) -> None:
    known = next(one.name for one in METRICS if one.name.startswith(name))
    assert f"`{name}`" in DOCUMENT or f"`{known}`" in DOCUMENT


@pytest.mark.parametrize("code", list(InvalidCode))
def test_every_reason_for_no_verdict_is_in_the_document(code: InvalidCode) -> None:
    assert f"`{code}`" in DOCUMENT


def test_the_document_lists_the_breaks_that_can_be_done_again() -> None:
    assert table(load()) in DOCUMENT


@pytest.mark.parametrize("one", load(), ids=lambda one: one.what)
def test_a_listed_break_still_fits_the_sources_and_its_test_exists(one: Break) -> None:
    text = (SOURCES / one.file).read_text(encoding="utf-8")
    assert one.broken(text) != text
    assert one.test_files()
