# SPDX-License-Identifier: Apache-2.0
"""Read out of a boot log what the engine really runs, to be compared with what was asked."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vllm_perf.diagnosis.boot_context import read_context
from vllm_perf.diagnosis.boot_notes import BootNote, read_notes
from vllm_perf.diagnosis.logtext import read_lines

_CONFIG = re.compile(
    r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[^)]+)\) with config: (?P<config>.*)"
)
_SERVING = re.compile(r"Application startup complete|Uvicorn running on")
# Newest first; each names the backend its own way.
_BACKENDS = (
    re.compile(r"^Using AttentionBackendEnum\.(?P<name>\w+) backend\."),
    re.compile(r"^Using (?P<name>[A-Z0-9_]+) attention backend out of potential backends"),
    re.compile(r"^Using (?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+) backend\b"),
    re.compile(r"^Using (?P<name>Flash ?Attention|FlashInfer|Triton|XFormers|Torch SDPA|FlexAttention"
               r"|FlashMLA|Pallas)(?: MLA)? backend(?: on V1 engine)?\.?$", re.IGNORECASE),
)  # fmt: skip
_BACKEND_NAMES = {
    "flash attention": "FLASH_ATTN",
    "flashattention": "FLASH_ATTN",
    "flashinfer": "FLASHINFER",
    "triton": "TRITON_ATTN",
    "xformers": "XFORMERS",
    "torch sdpa": "TORCH_SDPA",
    "flexattention": "FLEX_ATTENTION",
    "flashmla": "FLASHMLA",
    "pallas": "PALLAS",
}
_KERNEL = re.compile(r"^Using (?P<kernel>\w+) for (?P<method>\w+)$")
_KERNEL_CONVERTED = re.compile(r"convertible to \w+ during runtime\. Using (?P<kernel>\w+) kernel")
_KERNEL_FORCED = re.compile(r"however you specified quantization=(?P<kernel>\w+) explicitly, so forcing")
_KV_TOKENS = re.compile(r"\b(?:GPU|CPU|XPU|\w+) KV cache size: (?P<tokens>[\d,]+) tokens")
_KV_BLOCKS = re.compile(r"# (?:GPU|cuda|cpu|CPU|HPU|TPU) blocks: (?P<blocks>[\d,]+)")
_CONCURRENCY = re.compile(
    r"Maximum concurrency for (?P<length>[\d,]+) tokens per request: (?P<times>[\d.]+)x"
)
_MAX_LEN = re.compile(r"Using max model len (?P<length>[\d,]+)")
_AVAILABLE = re.compile(
    r"Available KV cache memory: (?P<gib>-?[\d.]+) GiB|(?:Explicitly|Auto) set"
    r" \((?P<cpu>[\d.]+)/[\d.]+\) GiB for KV"
)
_WEIGHTS = re.compile(r"(?:Model loading|Loading model weights) took (?P<gib>[\d.]+) (?:GiB|GB)")
_WEIGHTS_S = re.compile(
    r"(?:Loading weights took|Model loading took [\d.]+ (?:GiB|GB)(?: memory)? and) (?P<s>[\d.]+) s"
)
_COMPILE = re.compile(r"torch\.compile (?:took|takes) (?P<s>[\d.]+) s in total")
_GRAPHS = re.compile(r"Graph capturing finished in (?P<s>[\d.]+) secs?, took (?P<gib>[\d.]+) GiB")
_GRAPH_ESTIMATE = re.compile(r"Estimated CUDA graph memory: (?P<gib>[\d.]+) GiB total")
_INIT = re.compile(r"init engine \(profile, create kv cache, warmup model\) took (?P<s>[\d.]+) s")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFacts:
    """What a booted engine said about itself; ``None`` where it did not say.

    ``attention_backend`` is vLLM's enum name (``FLASH_ATTN``); on the CPU it is ``CPU_ATTN``, which vLLM
    does not log. ``quantization`` is the method after vLLM's own choice (``auto_awq``),
    ``quantization_kernel`` what computes it (``MacheteLinearKernel``). ``kv_cache_dtype`` "auto" means the
    model's own. ``kv_blocks`` is only logged by V0 engines. ``asked`` are the non-default arguments as the
    log repeats them.
    """

    version: str | None = None
    platform: str | None = None
    model: str | None = None
    dtype: str | None = None
    attention_backend: str | None = None
    quantization: str | None = None
    quantization_kernel: str | None = None
    kv_cache_dtype: str | None = None
    kv_cache_tokens: int | None = None
    kv_blocks: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    available_kv_gib: float | None = None
    weights_gib: float | None = None
    weights_load_s: float | None = None
    prefix_caching: bool | None = None
    enforce_eager: bool | None = None
    compile_s: float | None = None
    graph_capture_s: float | None = None
    graph_memory_gib: float | None = None
    engine_init_s: float | None = None
    serving: bool = False
    asked: dict[str, str] = field(default_factory=dict)
    notes: tuple[BootNote, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the notes as sentences, for whoever only prints them."""
        return tuple(note.text for note in self.notes)


def read_boot_facts(log_text: str) -> BootFacts:
    """Read the facts of a boot log of any vLLM from 0.4 on; an unfinished log gives what it has."""
    lines = read_lines(log_text)
    context = read_context(lines, log_text="", argv=(), exit_code=None, vllm_version=None)
    texts = tuple(line.text.strip() for line in lines)
    config = _engine_config(texts)
    platform = config.get("device_config")
    return BootFacts(
        version=context.version,
        platform=platform,
        model=config.get("model"),
        dtype=config["dtype"].removeprefix("torch.") if "dtype" in config else None,
        attention_backend=_backend(texts) or _cpu_backend(platform, config),
        quantization=_not_none(config.get("quantization")),
        quantization_kernel=_kernel(texts),
        kv_cache_dtype=config.get("kv_cache_dtype"),
        kv_cache_tokens=_integer(_KV_TOKENS, texts, "tokens"),
        kv_blocks=_integer(_KV_BLOCKS, texts, "blocks"),
        max_concurrency=_decimal(_CONCURRENCY, texts, "times"),
        max_model_len=_length(config, texts),
        available_kv_gib=_decimal(_AVAILABLE, texts, "gib") or _decimal(_AVAILABLE, texts, "cpu"),
        weights_gib=_decimal(_WEIGHTS, texts, "gib"),
        weights_load_s=_decimal(_WEIGHTS_S, texts, "s"),
        prefix_caching=_truth(config.get("enable_prefix_caching")),
        enforce_eager=_truth(config.get("enforce_eager")),
        compile_s=_decimal(_COMPILE, texts, "s"),
        graph_capture_s=_decimal(_GRAPHS, texts, "s"),
        graph_memory_gib=_decimal(_GRAPHS, texts, "gib") or _decimal(_GRAPH_ESTIMATE, texts, "gib"),
        engine_init_s=_decimal(_INIT, texts, "s"),
        serving=any(_SERVING.search(text) for text in texts),
        asked=dict(context.asked),
        notes=read_notes(lines),
    )


def _engine_config(texts: Sequence[str]) -> dict[str, str]:
    found = next((match for match in map(_CONFIG.search, texts) if match), None)
    if found is None:
        return {}
    # Only plain values: what stands in brackets belongs to nested configurations.
    return {
        name: value.strip("'\"")
        for name, value in re.findall(r"(?:^|, )(\w+)=('[^']*'|\"[^\"]*\"|[\w./+-]+)(?=,|$)", found["config"])
    }


def _backend(texts: Iterable[str]) -> str | None:
    for text in texts:
        for pattern in _BACKENDS:
            found = pattern.search(text)
            if found:
                return _BACKEND_NAMES.get(found["name"].lower(), found["name"].upper())
    return None


def _cpu_backend(platform: str | None, config: dict[str, str]) -> str | None:
    return "CPU_ATTN" if platform == "cpu" and config else None


def _kernel(texts: Sequence[str]) -> str | None:
    for pattern in (_KERNEL_FORCED, _KERNEL, _KERNEL_CONVERTED):
        found = next((match for match in map(pattern.search, texts) if match), None)
        if found:
            return found["kernel"]
    return None


def _length(config: dict[str, str], texts: Sequence[str]) -> int | None:
    if config.get("max_seq_len", "").isdigit():
        return int(config["max_seq_len"])
    return _integer(_MAX_LEN, texts, "length") or _integer(_CONCURRENCY, texts, "length")


def _not_none(text: str | None) -> str | None:
    return None if text in (None, "None") else text


def _truth(text: str | None) -> bool | None:
    return {"True": True, "False": False}.get(text or "")


def _integer(pattern: re.Pattern[str], texts: Sequence[str], group: str) -> int | None:
    text = _find(pattern, texts, group)
    return None if text is None else int(text.replace(",", ""))


def _decimal(pattern: re.Pattern[str], texts: Sequence[str], group: str) -> float | None:
    text = _find(pattern, texts, group)
    return None if text is None else float(text)


def _find(pattern: re.Pattern[str], texts: Sequence[str], group: str) -> str | None:
    return next((match[group] for match in map(pattern.search, texts) if match and match[group]), None)
