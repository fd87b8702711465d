# SPDX-License-Identifier: Apache-2.0
"""Failures of quantization and number formats."""

import re

from vllm_perf.diagnosis.boot_context import BootContext
from vllm_perf.diagnosis.nearest import nearest_name
from vllm_perf.diagnosis.signatures.signature import Figures, Signature
from vllm_perf.spec.category import Category

_SHOWN_CHOICES = 12


def nearest_choice(figures: Figures, _: BootContext) -> Figures:
    """Return the valid value that is nearest to the one given."""
    choices = _choices(str(figures.get("choices", "")))
    nearest = nearest_name(str(figures.get("value", "")), choices)
    return {"nearest": nearest} if nearest else {}


def _choices(text: str) -> tuple[str, ...]:
    quoted = re.findall(r"'([^']+)'", text)
    return tuple(quoted or (word.strip() for word in text.strip("[]{}() ").split(",") if word.strip()))


def choose(figures: Figures, _: BootContext) -> str:
    """Return the remedy for a value that is none of the choices."""
    known = _choices(str(figures.get("choices", "")))
    more = f" and {len(known) - _SHOWN_CHOICES} more" if len(known) > _SHOWN_CHOICES else ""
    nearest = figures.get("nearest")
    listed = f" (one of: {', '.join(known[:_SHOWN_CHOICES])}{more})" if known else ""
    return f"use {nearest}{listed}" if nearest else f"use a valid value{listed}"


def _capability(figures: Figures, name: str) -> str:
    value = str(figures[name])
    return f"{value[:-1]}.{value[-1]}" if value.isdigit() and len(value) > 1 else value


def _old_gpu(figures: Figures, _: BootContext) -> str:
    return (
        f"{figures['method']} needs a GPU of capability {_capability(figures, 'minimum')}, "
        f"and this one has {_capability(figures, 'current')}"
    )


def _fp8_cause(figures: Figures, context: BootContext) -> str:
    asked = context.asked.get("kv_cache_dtype", "")
    what = f"--kv-cache-dtype {asked}" if asked.startswith("fp8") else "the checkpoint's fp8 weights"
    kind = figures.get("fp8_type", "fp8")
    return f"this GPU cannot compute with {kind}, which {what} need{'s' if asked.startswith('fp8') else ''}"


def _fp8_remedy(_: Figures, context: BootContext) -> str:
    if context.asked.get("kv_cache_dtype", "").startswith("fp8"):
        return "drop --kv-cache-dtype (or try fp8_e5m2), or use a newer GPU (Ada, Hopper)"
    return "serve a checkpoint without fp8 (AWQ, GPTQ or bf16), or use a newer GPU (Ada, Hopper)"


SIGNATURES = (
    Signature(
        name="argument contradicts the checkpoint",
        category=Category.QUANT_MISMATCH,
        pattern=r"Quantization method specified in the model config \((?P<config_method>[\w.-]+)\)"
        r" does not match the"
        r" quantization method specified in the `quantization` argument \((?P<argument>[\w.-]+)\)",
        cause="the weights are quantized with {config_method}, but --quantization says {argument}",
        remedy="drop --quantization: vLLM reads the method, and the fastest kernel for it, from the "
        "checkpoint",
        versions="0.5.0 (vllm#5842), 0.32 on the CPU",
    ),
    Signature(
        name="weights are not quantized so",
        category=Category.QUANT_MISMATCH,
        pattern=r"Cannot find the config file for (?P<argument>[\w.-]+)",
        cause="--quantization {argument} was given, but the model's weights are not quantized with it",
        remedy="drop --quantization, or serve the model's {argument} variant",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="number format not supported by the method",
        category=Category.QUANT_MISMATCH,
        pattern=r"(?P<dtype>torch\.\w+) is not supported for quantization method (?P<method>[\w.-]+)\."
        r" Supported dtypes: \[(?P<supported>[^\]]*)\]",
        cause="{method} does not compute in {dtype} (it does in {supported})",
        remedy="add --dtype half (or another of those listed)",
        versions="source of 0.32",
    ),
    Signature(
        name="unknown method",
        category=Category.QUANT_UNKNOWN,
        pattern=r"Unknown quantization method: (?P<value>[\w.-]+)\.(?: Must be one of"
        r" (?P<choices>\[[^\]]*\]))?",
        cause="vLLM knows no quantization method called '{value}'",
        remedy=choose,
        versions="vllm-windows#16, 0.32 on the CPU",
        derive=nearest_choice,
    ),
    Signature(
        name="unknown method, refused by the command line",
        category=Category.QUANT_UNKNOWN,
        pattern=r"error: argument --quantization(?:/-q)?: invalid choice: '?(?P<value>[^'\n(]*?)'?"
        r" \(choose from (?P<choices>[^)]*)\)",
        cause="vLLM knows no quantization method called '{value}'",
        remedy=choose,
        versions="argparse's own text (source)",
        derive=nearest_choice,
    ),
    Signature(
        name="method not supported by the GPU",
        category=Category.QUANT_HW_UNSUPPORTED,
        pattern=r"The quantization method (?P<method>[\w.-]+) is not supported for the current GPU\."
        r" Minimum capability: (?P<minimum>\d+)\. Current capability: (?P<current>\d+)",
        cause=_old_gpu,
        remedy="serve a checkpoint of another method, or use a newer GPU",
        versions="0.4.0.post1 (vllm#4202, #4327); source of 0.32",
    ),
    Signature(
        name="scheme not supported by the GPU",
        category=Category.QUANT_HW_UNSUPPORTED,
        pattern=r"Quantization scheme is not supported for[ ',]*the current GPU\."
        r" (?:Min|Minimum|Required) capability: (?P<minimum>\d+)\.[ ',]*Current capability: (?P<current>\d+)",
        cause=lambda figures, context: _old_gpu({"method": "the checkpoint's scheme", **figures}, context),
        remedy="serve a checkpoint of another method, or use a newer GPU",
        versions="source of 0.32",
    ),
    Signature(
        name="method not supported on the platform",
        category=Category.QUANT_HW_UNSUPPORTED,
        pattern=r"(?P<method>[\w.-]+) quantization is (?:currently )?not supported"
        r" (?:in|on|for) (?P<platform>\w+)",
        cause="vLLM does not compute {method} on this platform ({platform})",
        remedy="serve a checkpoint of another method",
        versions="source of 0.32",
    ),
    Signature(
        name="no kernel for the quantized layers",
        category=Category.QUANT_HW_UNSUPPORTED,
        pattern=r"Failed to find a kernel that can implement the (?P<scheme>[\w-]+) linear layer",
        cause="no kernel of this vLLM computes the checkpoint's {scheme} layers on this GPU",
        remedy="serve a checkpoint of another method, or use a newer GPU; the log gives each kernel's reason",
        versions="source of 0.32",
    ),
    Signature(
        name="bfloat16 on an old GPU",
        category=Category.DTYPE_HW_UNSUPPORTED,
        pattern=r"Bfloat16 is only supported on GPUs with compute capability of at least"
        r" (?P<minimum>[\d.]+\d)\."
        r" Your (?P<gpu>[^\n]{1,60}?) GPU (?:has compute capability (?P<current>[\d.]+\d)|does not have)",
        cause="{gpu} cannot compute in bfloat16, which needs capability {minimum}",
        remedy="add --dtype half",
        versions="0.4.3 (vllm#1157, LlamaFactory#4960); source of 0.32",
    ),
    Signature(
        name="fp8 not supported by the GPU",
        category=Category.FP8_HW_UNSUPPORTED,
        pattern=r"(?:type (?P<fp8_type>fp8\w*) not supported in this architecture"
        r"|fp8\w* data type is not supported on CUDA arch"
        r"|torch\._scaled_mm is only supported on)",
        cause=_fp8_cause,
        remedy=_fp8_remedy,
        versions="0.8.5 (vllm#17581), 0.11.0 (vllm#26431)",
    ),
    Signature(
        name="fp8 KV cache with a float16 model",
        category=Category.FP8_HW_UNSUPPORTED,
        pattern=r"For FP8 input, output must have dtype BF16",
        cause="FlashAttention 3 reads an fp8 KV cache only for bfloat16 models, and this one runs in float16",
        remedy="add --dtype bfloat16, or drop --kv-cache-dtype fp8",
        versions="0.26 on an H200",
    ),
    Signature(
        name="fp8 KV cache refused",
        category=Category.FP8_HW_UNSUPPORTED,
        pattern=r"(?:(?:FP8|fp8) KV cache (?:is )?(?:only supported|not supported|requires)"
        r"|Unsupported data type of kv cache: fp8"
        r"|kv_cache_dtype[= ]'?fp8\w*'? (?:is )?not supported|is not valid for this configuration\."
        r" Reason: \[[^\]]*kv_cache_dtype not supported)",
        cause="this GPU, attention backend or version does not support an fp8 KV cache",
        remedy="drop --kv-cache-dtype, choose another --attention-backend, or upgrade",
        versions="source of 0.32",
    ),
)
