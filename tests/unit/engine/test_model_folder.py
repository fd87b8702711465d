# SPDX-License-Identifier: Apache-2.0
"""The model that is written on the fly: its vocabulary, and the lengths that follow from it."""

import json
from pathlib import Path

from vllm_perf.engine.model_folder import SPECIALS, build_vocabulary, write_model
from vllm_perf.spec.engine import ModelShape

SHAPE = ModelShape(config={"vocab_size": 600, "model_type": "qwen2"})


def test_the_vocabulary_has_exactly_the_size_asked_for_without_doubles() -> None:
    tokens, merges = build_vocabulary(2000, seed=0)
    assert len(tokens) == len(set(tokens)) == 2000
    assert len(merges) == 2000 - 256


def test_every_merge_extends_a_token_by_one_letter_so_that_a_word_is_one_token() -> None:
    tokens, merges = build_vocabulary(2000, seed=0)
    known = set(tokens)
    assert all(left in known and len(right) == 1 and left + right in known for left, right in merges)


def test_every_token_after_the_bytes_is_plain_ascii_with_a_leading_space() -> None:
    tokens, _ = build_vocabulary(2000, seed=0)
    assert all(token[0] == "Ġ" and token[1:].isascii() and token[1:].islower() for token in tokens[256:])


def test_the_folder_is_complete_and_its_ids_fit(tmp_path: Path) -> None:
    folder = write_model(SHAPE, tmp_path, "org/name")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    ids = [*tokenizer["model"]["vocab"].values(), *(one["id"] for one in tokenizer["added_tokens"])]
    assert sorted(ids) == list(range(600))
    assert config["eos_token_id"] == 600 - len(SPECIALS) + 2


def test_the_same_shape_is_written_once_and_another_shape_elsewhere(tmp_path: Path) -> None:
    first = write_model(SHAPE, tmp_path, "m")
    assert write_model(SHAPE, tmp_path, "m") == first
    other = write_model(ModelShape(config={**SHAPE.config, "hidden_size": 8}), tmp_path, "m")
    assert other != first
    assert not list(tmp_path.glob(".building-*"))
