# SPDX-License-Identifier: Apache-2.0
"""Remarks of a healthy boot that explain a slow server: forced kernels, ignored backends, sampling."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vllm_perf.diagnosis.logtext import Line
from vllm_perf.diagnosis.redact import redact

NoteKind = Literal[
    "slow_quantization_kernel",
    "backend_ignored",
    "backend_variable_deprecated",
    "sampling_overridden",
    "kv_cache_shrunk",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootNote:
    """One remark: its kind, what to make of it, and the log's own words."""

    kind: NoteKind
    text: str
    seen: str


_NOTES: tuple[tuple[NoteKind, re.Pattern[str], str], ...] = (
    (
        "slow_quantization_kernel",
        re.compile(r"however you specified quantization=\w+ explicitly, so forcing"),
        "--quantization forces the slow kernel (up to 5 times slower): drop the flag, vLLM then takes "
        "the fast one",
    ),
    (
        "slow_quantization_kernel",
        re.compile(r"quantization is not fully optimized yet"),
        "this quantization kernel can be slower than the unquantized model: drop --quantization",
    ),
    (
        "backend_ignored",
        re.compile(r"Cannot use \S+ backend on \w+"),
        "the asked attention backend was ignored on this platform: results are not comparable with it",
    ),
    (
        "backend_variable_deprecated",
        re.compile(r"VLLM_ATTENTION_BACKEND environment variable is deprecated"
                   r"|Unknown vLLM environment variable detected: VLLM_ATTENTION_BACKEND"),
        "VLLM_ATTENTION_BACKEND is on its way out and newer versions ignore it: use --attention-backend",
    ),
    (
        "sampling_overridden",
        re.compile(r"[Dd]efault (?:vLLM )?sampling parameters have been overridden"),
        "the model's generation_config changes sampling: send temperature, top_p and seed, or boot with "
        "--generation-config vllm",
    ),
    (
        "kv_cache_shrunk",
        re.compile(r"to maintain the same effective KV cache size"),
        "this version keeps memory back for CUDA graphs: the same flags give a smaller KV cache than before",
    ),
)  # fmt: skip


def read_notes(lines: Sequence[Line]) -> tuple[BootNote, ...]:
    """Return the remarks in the order of the log, each kind of text once."""
    found: dict[str, BootNote] = {}
    for line in lines:
        for kind, pattern, text in _NOTES:
            if pattern.search(line.text):
                found.setdefault(text, BootNote(kind=kind, text=text, seen=redact(line.text.strip())))
    return tuple(found.values())
