# SPDX-License-Identifier: Apache-2.0
"""Failures for lack of memory: the share is too high, too low, or another process has it."""

import math

from vllm_perf.diagnosis.boot_context import BootContext
from vllm_perf.diagnosis.signatures.signature import Figures, Signature
from vllm_perf.spec.category import Category


def number(figures: Figures, name: str) -> float:
    """Return one figure as a number, NaN where it is missing or text."""
    value = figures.get(name)
    return float(value) if isinstance(value, int | float) else math.nan


def _fitting_share(figures: Figures, _: BootContext) -> Figures:
    free, total = number(figures, "free_gib"), number(figures, "total_gib")
    return {"fitting_utilization": math.floor(free / total * 100) / 100} if total > 0 else {}


def _lower_share(figures: Figures, context: BootContext) -> str:
    share = f"use --gpu-memory-utilization {figures.get('fitting_utilization', '0.8')} or less"
    pid = figures.get("holder_pid")
    if pid is not None and pid not in context.own_pids:
        return f"stop process {pid}, which holds the memory, or {share}"
    if figures.get("where") == "node":
        return f"stop other processes that hold memory, or {share} (here it is a share of main memory)"
    return f"stop the other processes on this GPU (nvidia-smi lists them), or {share}"


def _raise_share(figures: Figures, context: BootContext) -> str:
    asked = context.utilization
    now = f" (now {asked:g})" if asked is not None else ""
    wanted = figures.get("needed_utilization")
    target = f" to more than {wanted}" if wanted is not None else ""
    weights = f"; the weights alone take {context.weights_gib:g} GiB" if context.weights_gib else ""
    return (
        f"raise --gpu-memory-utilization{target}{now}, or serve a smaller or quantized model{weights}; "
        "a smaller --max-num-batched-tokens also helps, lowering the utilization does not"
    )


def _needed_share(_: Figures, context: BootContext) -> Figures:
    asked, total, available = context.utilization, context.total_gib, context.available_kv_gib
    if asked is None or not total or available is None or available > 0:
        return {}
    return {"needed_utilization": math.ceil((asked - available / total) * 100) / 100}


def _needed_share_cpu(figures: Figures, _: BootContext) -> Figures:
    share, left, total = (number(figures, name) for name in ("share_gib", "left_gib", "total_gib"))
    return {"needed_utilization": math.ceil((share - left) / total * 100) / 100} if total > 0 else {}


def _fitting_length(figures: Figures, context: BootContext) -> Figures:
    needed, available = number(figures, "needed_gib"), number(figures, "available_gib")
    found: Figures = {}
    if "fitting_len" not in figures and needed > 0:
        # By proportion, and rounded down to whole blocks of 16 tokens: an estimate.
        found["approximate_len"] = int(number(figures, "max_model_len") * available / needed) // 16 * 16
    asked, total = context.utilization, context.total_gib
    if asked is not None and total:
        found["needed_utilization"] = math.ceil((asked + (needed - available) / total) * 100) / 100
    return found


def _shorter(figures: Figures, context: BootContext) -> str:
    if "fitting_len" in figures:
        length = f"use --max-model-len {figures['fitting_len']} or fewer"
    else:
        length = f"use --max-model-len {figures['approximate_len']} or fewer (approximate, by proportion)"
    wanted = number(figures, "needed_utilization")
    if wanted <= 0.95:
        return f"{length}, or raise --gpu-memory-utilization to {wanted:g}"
    return f"{length}, or raise --gpu-memory-utilization"


def _who_holds(figures: Figures, context: BootContext) -> str:
    gpu = f"GPU {figures['gpu']}" if "gpu" in figures else "the GPU"
    pid = figures.get("holder_pid")
    when = "while the weights were loaded" if context.weights_gib is None else "after the weights were loaded"
    if pid is not None and pid not in context.own_pids:
        return f"{gpu} ran out of memory {when}: process {pid} holds {figures['held']}"
    return f"{gpu} ran out of memory {when} (wanted {figures.get('wanted', 'more')} at once)"


def _weights_or_later(context: BootContext) -> Category:
    return Category.OOM_WEIGHTS if context.weights_gib is None else Category.OOM_RUNTIME


def _make_room(figures: Figures, context: BootContext) -> str:
    pid = figures.get("holder_pid")
    if pid is not None and pid not in context.own_pids:
        return f"stop process {pid}, which is not this server's, or use another GPU (CUDA_VISIBLE_DEVICES)"
    if context.weights_gib is not None:
        return "lower --max-num-batched-tokens, --max-num-seqs or --gpu-memory-utilization (0.8)"
    return "serve a smaller or quantized model, spread it with --tensor-parallel-size, or use a larger GPU"


SIGNATURES = (
    Signature(
        name="free memory below the asked share",
        category=Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
        pattern=r"(?:Process (?P<holder_pid>\d+) has (?P<held>[\d.]+ [GM]iB) memory in use[\s\S]{0,400}?)?"
        r"(?:Free|Available) memory on"
        r" (?P<where>device|node)[^(]{0,40}\((?P<free_gib>[\d.]+)/(?P<total_gib>[\d.]+) GiB\)"
        r" on startup is less than desired (?:GPU|CPU) memory utilization"
        r" \((?P<utilization>[\d.]+), (?P<wanted_gib>[\d.]+) GiB\)",
        cause="{wanted_gib} GiB are wanted (utilization {utilization}), but only {free_gib} of "
        "{total_gib} GiB are free",
        remedy=_lower_share,
        versions="0.9.1 (vllm#20305), later with the device named (granite-switch#123), 0.32 on the CPU",
        derive=_fitting_share,
    ),
    Signature(
        name="KV cache larger than the free memory",
        category=Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
        pattern=r"Available memory on node \d+ \((?P<free_gib>[\d.]+)/(?P<total_gib>[\d.]+) GiB\) on"
        r" kv cache allocation"
        r" is less than requested memory for kv \((?P<wanted_gib>[\d.]*[1-9][\d.]*)(?:/[\d.]+)? GiB\)",
        cause="a KV cache of {wanted_gib} GiB is wanted, but only {free_gib} of {total_gib} GiB are free",
        remedy="ask for less than {free_gib} GiB: lower VLLM_CPU_KVCACHE_SPACE, --kv-cache-memory-bytes or "
        "--gpu-memory-utilization, or stop other processes",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="share below what the worker takes (CPU)",
        category=Category.KV_ZERO,
        # The message blames other processes; the negative number says that the share itself is too small.
        pattern=r"Available memory on node \d+ \((?P<free_gib>[\d.]+)/(?P<total_gib>[\d.]+) GiB\) on"
        r" kv cache allocation is less than requested memory for kv"
        r" \((?P<left_gib>-[\d.]+|0\.0)/(?P<share_gib>[\d.]+) GiB\)",
        cause="the share of {share_gib} GiB is less than the worker itself takes, so nothing is left "
        "for the KV cache",
        remedy=_raise_share,
        versions="0.32 on the CPU",
        derive=_needed_share_cpu,
    ),
    Signature(
        name="no memory for cache blocks",
        category=Category.KV_ZERO,
        pattern=r"No available memory for the cache blocks\.",
        cause="weights and activations use up the whole share of memory, so nothing is left for the KV cache",
        remedy=_raise_share,
        versions="0.6.4.post1 (vllm#10439); source of 0.32",
        derive=_needed_share,
    ),
    Signature(
        name="length larger than the KV cache (V0)",
        category=Category.KV_TOO_SMALL_FOR_MAX_LEN,
        pattern=r"The model's max seq len \((?P<max_model_len>\d+)\) is larger than the maximum number"
        r" of tokens that"
        r" can be stored in KV cache \((?P<fitting_len>\d+)\)",
        cause="one request of {max_model_len} tokens does not fit into the KV cache of {fitting_len} tokens",
        remedy="use --max-model-len {fitting_len} or fewer, or raise --gpu-memory-utilization",
        versions="V0 engines, 0.2 to 0.7 (vllm#2418)",
    ),
    Signature(
        name="length larger than the KV cache (V1)",
        category=Category.KV_TOO_SMALL_FOR_MAX_LEN,
        pattern=r"To serve at least one request with the models?'s max seq len \((?P<max_model_len>\d+)\),"
        r" \(?(?P<needed_gib>[\d.]+) GiB KV cache is needed, which is larger than the available KV"
        r" cache memory"
        r" \((?P<available_gib>[\d.]+) GiB\)\.?"
        r"(?:[\s\S]{0,60}?estimated maximum model length is (?P<fitting_len>\d+))?",
        cause="one request of {max_model_len} tokens needs {needed_gib} GiB of KV cache, and "
        "{available_gib} GiB are there",
        remedy=_shorter,
        versions="0.8 (vllm#16118), 0.32 on the CPU",
        derive=_fitting_length,
    ),
    Signature(
        name="out of memory in the sampler's warm-up",
        category=Category.OOM_SAMPLER_WARMUP,
        pattern=r"CUDA out of memory occurred when warming up (?:the )?sampler with"
        r" (?P<max_num_seqs>\d+) dummy requests",
        cause="memory ran out while the sampler was warmed up with {max_num_seqs} requests; the KV "
        "cache was there already",
        remedy="lower --max-num-seqs (now {max_num_seqs}) or --gpu-memory-utilization",
        versions="V1 engines (vllm#14452, #17939, #27508); source of 0.32",
    ),
    Signature(
        name="out of memory in torch",
        category=Category.OOM_WEIGHTS,
        pattern=r"(?:torch\.(?:cuda\.)?OutOfMemoryError|OutOfMemoryError): (?:CUDA|HIP|XPU) out of memory\."
        r" Tried to allocate (?P<wanted>[\d.]+ [GMK]iB)\."
        r"(?: GPU (?P<gpu>\d+) has a total capaci?ty of (?P<total>[\d.]+ GiB) of which (?P<free>[\d.]+"
        r" [GMK]iB) is free\.)?"
        r"(?: Process (?P<holder_pid>\d+) has (?P<held>[\d.]+ [GM]iB) memory in use)?",
        cause=_who_holds,
        remedy=_make_room,
        refine=_weights_or_later,
        versions="torch's own text (vllm#15105, #15598)",
        weak=True,
    ),
    Signature(
        name="out of memory in the driver",
        category=Category.OOM_WEIGHTS,
        pattern=r"(?:AcceleratorError|RuntimeError|torch\.cuda\.\w*Error): (?:CUDA|HIP) error: out of memory",
        cause=_who_holds,
        remedy=_make_room,
        refine=_weights_or_later,
        versions="torch's own text (source)",
        weak=True,
    ),
)
