# SPDX-License-Identifier: Apache-2.0
"""What a boot log and a command line say about the engine that was asked for."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_perf.diagnosis.logtext import Line
from vllm_perf.diagnosis.redact import looks_secret

_VERSION = re.compile(
    r"(?:\bversion |LLM engine \(v|\bvLLM(?: API server)? version[: ]+)(?P<version>\d+\.\d+(?:\.\w+)*)"
)
_ASKED = re.compile(r"(?:non-default args: (?P<dict>\{.*\}))")
_NAMESPACE = re.compile(r"\bargs: Namespace\((?P<body>.*)\)")
_NAMESPACE_ITEM = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|[^,()\[\]{}]+)(?=,|$)")
_WEIGHTS = re.compile(r"(?:Model loading took|model weights take) (?P<gib>[\d.]+) ?Gi?B")
_AVAILABLE = re.compile(r"Available KV cache memory: (?P<gib>-?[\d.]+) GiB")
_ON_DEVICE = re.compile(r"Free memory on device[^(]*\([\d.]+/(?P<total>[\d.]+) GiB\)")
_TOTAL = re.compile(r"total_gpu_memory \((?P<total>[\d.]+) ?GiB\)")
_PREFIX = re.compile(r"enable_prefix_caching=(?P<on>True|False)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootContext:
    """Facts that make a remedy exact; whatever was not said is ``None`` or empty.

    ``asked`` maps flag names with underscores (``max_model_len``) to what was asked for, as text;
    ``total_gib`` is the GPU's memory; ``own_pids`` are the processes that wrote the log.
    """

    version: str | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    weights_gib: float | None = None
    available_kv_gib: float | None = None
    total_gib: float | None = None
    prefix_caching: bool | None = None
    exit_code: int | None = None
    own_pids: frozenset[int] = frozenset()
    known_flags: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def utilization(self) -> float | None:
        """Return the share of GPU memory that was asked for."""
        try:
            return float(self.asked["gpu_memory_utilization"])
        except (KeyError, ValueError):
            return None


def read_context(
    lines: Sequence[Line],
    *,
    log_text: str,
    argv: Sequence[str],
    exit_code: int | None,
    vllm_version: str | None,
) -> BootContext:
    """Collect the context; the command line outweighs the log."""
    texts = [line.text for line in lines]
    asked = {**_asked_in_log(texts), **read_argv(argv)}
    return BootContext(
        version=vllm_version or _first_text(_VERSION, texts, "version"),
        asked=asked,
        secrets=_secrets(asked),
        weights_gib=_first_number(_WEIGHTS, texts, "gib"),
        available_kv_gib=_first_number(_AVAILABLE, texts, "gib"),
        total_gib=_first_number(_ON_DEVICE, texts, "total") or _first_number(_TOTAL, texts, "total"),
        prefix_caching=_prefix_caching(texts),
        exit_code=exit_code,
        own_pids=frozenset(int(pid) for pid in re.findall(r"\bpid=(\d+)\)", log_text)),
        known_flags=tuple(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", _usage(texts)))),
    )


def read_argv(argv: Sequence[str]) -> dict[str, str]:
    """Return flags and values, names with underscores; a bare flag is "True", ``--no-x`` "False"."""
    found: dict[str, str] = {}
    for index, word in enumerate(argv):
        if not word.startswith("--") or len(word) < 3:
            continue
        name, equals, value = word[2:].partition("=")
        following = argv[index + 1] if index + 1 < len(argv) else "--"
        if not equals and not following.startswith("--"):
            value = following
        elif not equals:
            value = "False" if name.startswith("no-") else "True"
            name = name.removeprefix("no-")
        found[name.replace("-", "_")] = value
    return found


def _asked_in_log(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        asked = _ASKED.search(text)
        if asked:
            try:
                values = ast.literal_eval(asked["dict"])
            except (ValueError, SyntaxError):
                continue
            return (
                {str(name): str(value) for name, value in values.items()} if isinstance(values, dict) else {}
            )
        namespace = _NAMESPACE.search(text)
        if namespace:
            return {name: value.strip("'\"") for name, value in _NAMESPACE_ITEM.findall(namespace["body"])}
    return {}


def _secrets(asked: Mapping[str, str]) -> tuple[str, ...]:
    # The log repeats a list ("['key']"), the command line has the key itself.
    values = [value for name, value in asked.items() if looks_secret(name)]
    return tuple(part for value in values for part in (re.findall(r"'([^']+)'", value) or [value]))


def _prefix_caching(texts: Sequence[str]) -> bool | None:
    found = _first_text(_PREFIX, texts, "on")
    return None if found is None else found == "True"


def _usage(texts: Sequence[str]) -> str:
    start = next((index for index, text in enumerate(texts) if text.startswith("usage:")), None)
    return "" if start is None else "\n".join(texts[start:])


def _first_text(pattern: re.Pattern[str], texts: Sequence[str], group: str) -> str | None:
    return next((found[group] for found in map(pattern.search, texts) if found), None)


def _first_number(pattern: re.Pattern[str], texts: Sequence[str], group: str) -> float | None:
    text = _first_text(pattern, texts, group)
    return None if text is None else float(text)
