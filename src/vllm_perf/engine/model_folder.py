# SPDX-License-Identifier: Apache-2.0
"""Write a model folder of a given shape: config and byte-level BPE tokenizer, no weights.

A random model is as fast as a trained one of its shape, so nothing has to be downloaded to measure.
"""

import hashlib
import json
import random
import shutil
import tempfile
from pathlib import Path

from vllm_perf.spec.engine import ModelShape

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
FORMAT = 1
# The pattern by which Qwen2 splits text before byte-level BPE; with it every " word" is one piece.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}{% endif %}"
)


def write_model(shape: ModelShape, cache: Path, name: str) -> Path:
    """Return the folder of this shape below ``cache``, writing it when it is not there yet.

    The folder's name carries a hash of everything in it, so two shapes never share one; it appears whole
    or not at all, also with two writers.
    """
    digest = hashlib.sha256(json.dumps([FORMAT, shape.model_dump()], sort_keys=True).encode()).hexdigest()
    folder = cache / f"{name.replace('/', '--')}-{digest[:12]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=cache, prefix=".building-"))
    try:
        _write_files(shape, building)
        building.chmod(0o755)
        building.replace(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _write_files(shape: ModelShape, folder: Path) -> None:
    size = int(shape.config["vocab_size"])
    tokens, merges = build_vocabulary(size - len(SPECIALS), shape.seed)
    first_special = len(tokens)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    config = {"bos_token_id": first_special, "eos_token_id": first_special + 2, **shape.config}
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": SPECIALS[2],
        "pad_token": SPECIALS[0],
        "bos_token": None,
        "unk_token": None,
        "add_prefix_space": False,
        "errors": "replace",
        "model_max_length": config.get("max_position_embeddings", 32768),
        "chat_template": CHAT_TEMPLATE,
    }
    merge_lines = "".join(f"{left} {right}\n" for left, right in merges)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(vocabulary, merges, first_special)))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + merge_lines)


def build_vocabulary(size: int, seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Return ``size`` tokens and the merges that lead to them.

    After the 256 bytes every token is a node of one trie of random lower-case words, each with the leading
    space: any merge extends a token by one letter, so BPE walks the trie and a word of it is exactly one
    token. All of them decode to plain ASCII: random weights sample any id, and an id that decodes to half
    a character would hold back a stream's content.
    """
    rng = random.Random(seed)
    tokens = _byte_characters()
    known = set(tokens)
    merges: list[tuple[str, str]] = []
    space = tokens[32]
    while len(tokens) < size:
        word = space
        for letter in rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 6)):
            longer = word + letter
            if longer not in known and len(tokens) < size:
                merges.append((word, letter))
                tokens.append(longer)
                known.add(longer)
            if longer not in known:
                break
            word = longer
    return tokens, merges


def _byte_characters() -> list[str]:
    """Return the 256 printable characters that byte-level BPE uses for the bytes 0..255 (GPT-2's map)."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _tokenizer(
    vocabulary: dict[str, int], merges: list[tuple[str, str]], first_special: int
) -> dict[str, object]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": first_special + i, "content": text, **flags} for i, text in enumerate(SPECIALS)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [list(pair) for pair in merges],
        },
    }
