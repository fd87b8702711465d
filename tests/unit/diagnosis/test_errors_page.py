# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md answers every category, and every line of the article's table."""

import re
from pathlib import Path

import pytest

from vllm_perf.diagnosis.redact import MASK, redact
from vllm_perf.diagnosis.signatures import SIGNATURES
from vllm_perf.spec.category import Category

PAGE = (Path(__file__).parents[3] / "docs" / "errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))

# The symptoms that the article's catalogue lists.
ARTICLE = (
    "401 Unauthorized, local",
    "401 Unauthorized, channel",
    "404",
    "`local proxy failed`",
    "connection refused",
    "`'NoneType' object has no attribute 'choices'`",
    "OAuth trouble of Codex, Claude Code, Cline, CC Switch",
    "fp8 KV cache fails to start",
    "memory tighter after prefix caching",
    "`quantization method not supported`, odd output",
)


@pytest.mark.parametrize("category", list(Category))
def test_category_has_a_section_that_says_what_it_looks_like_and_what_to_do(category: Category) -> None:
    section = SECTIONS[category.value]
    if category is not Category.OK:
        assert "Looks like: " in section
        assert "\nDo: " in section


def test_no_word_is_explained_twice() -> None:
    words = re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)
    assert len(words) == len(set(words))


def test_page_explains_no_word_that_does_not_exist() -> None:
    assert set(SECTIONS) == {category.value for category in Category}


@pytest.mark.parametrize("symptom", ARTICLE)
def test_line_of_the_articles_table_is_answered(symptom: str) -> None:
    assert f"\n| {symptom} |" in PAGE


def test_links_inside_the_page_lead_to_sections() -> None:
    anchors = {name.lower() for name in SECTIONS}
    assert set(re.findall(r"\]\(#([a-z0-9_]+)\)", PAGE)) <= anchors


def test_page_holds_nothing_that_redaction_would_take_for_a_key() -> None:
    assert MASK not in redact(PAGE)


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.name)
def test_signature_is_complete_and_says_where_it_was_seen(signature: object) -> None:
    fields = {name: getattr(signature, name) for name in ("name", "pattern", "cause", "remedy", "versions")}
    assert all(fields.values())
    assert re.search(r"\d\.\d|source|#\d|own text", fields["versions"])


def test_signatures_have_names_of_their_own() -> None:
    names = [signature.name for signature in SIGNATURES]
    assert len(names) == len(set(names))
