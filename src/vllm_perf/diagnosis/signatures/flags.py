# SPDX-License-Identifier: Apache-2.0
"""Failures of the command line: unknown flags, values that do not fit."""

import re

from vllm_perf.diagnosis.boot_context import BootContext
from vllm_perf.diagnosis.flag_history import NEWER, REPLACED
from vllm_perf.diagnosis.nearest import nearest_name
from vllm_perf.diagnosis.signatures.quantization import choose, nearest_choice
from vllm_perf.diagnosis.signatures.signature import Figures, Signature
from vllm_perf.spec.category import Category


def _unknown_flag(figures: Figures, context: BootContext) -> Figures:
    words = str(figures["arguments"]).split()
    flag = next((word for word in words if word.startswith("-")), words[0]).partition("=")[0]
    found: Figures = {"flag": flag}
    nearest = nearest_name(flag, (name for name in context.known_flags if name != flag), cutoff=0.75)
    if nearest:
        found["nearest"] = nearest
    if context.version:
        found["vllm_version"] = context.version
    return found


def _variable(figures: Figures, _: BootContext) -> Figures:
    named = re.search(r"\bVLLM_\w+", str(figures["reason"]))
    return {"variable": figures.get("variable") or (named[0] if named else "that the log names")}


def _flag_cause(figures: Figures, context: BootContext) -> str:
    version = f"vLLM {context.version}" if context.version else "this vLLM"
    return f"{version} has no flag {figures['flag']}"


def _flag_remedy(figures: Figures, _: BootContext) -> str:
    flag = str(figures["flag"])
    if flag in REPLACED:
        return REPLACED[flag]
    if "nearest" in figures:
        return f"write {figures['nearest']}"
    if flag in NEWER:
        return NEWER[flag]
    return "drop it, or look its name up in the installed version's --help"


def _divisors(figures: Figures, _: BootContext) -> Figures:
    heads, size = int(figures["heads"]), int(figures["tensor_parallel_size"])
    legal = [number for number in range(1, max(size, 8) + 1) if heads % number == 0]
    return {"legal_sizes": ", ".join(str(number) for number in legal)}


SIGNATURES = (
    Signature(
        name="flag unknown",
        category=Category.FLAG_UNKNOWN,
        pattern=r"error: unrecognized arguments: (?P<arguments>[^\n]+)",
        cause=_flag_cause,
        remedy=_flag_remedy,
        versions="vllm#18538, 0.32 on the CPU",
        derive=_unknown_flag,
    ),
    Signature(
        name="argument missing",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"error: the following arguments are required: (?P<arguments>[^\n]+)",
        cause="the command line lacks {arguments}",
        remedy="add it; a value that a shell variable should have given may be empty",
        versions="argparse's own text (source)",
    ),
    Signature(
        name="option unknown (config file or ambiguous)",
        category=Category.FLAG_UNKNOWN,
        pattern=r"error: (?:no such option|ambiguous option): (?P<arguments>--\S+)",
        cause=_flag_cause,
        remedy=_flag_remedy,
        versions="argparse's own text (source)",
        derive=_unknown_flag,
    ),
    Signature(
        name="attention backend unknown",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"(?:Unknown attention backend: '(?P<value>[^'\n]+)'\. Valid options are:"
        r" (?P<choices>[A-Z0-9_, \n]+)"
        r"|Invalid attention backend for (?P<platform>\S+))",
        cause=lambda figures, _: f"there is no attention backend {figures.get('value', 'of that name here')}",
        remedy=choose,
        versions="0.32 on the CPU",
        derive=nearest_choice,
    ),
    Signature(
        name="attention backend does not fit",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"Selected backend (?:AttentionBackendEnum\.)?(?P<value>\w+) is not valid for this"
        r" configuration\."
        r" Reason: (?P<reason>\[[^\]\n]*\]?)",
        cause="the attention backend {value} cannot run this configuration: {reason}",
        remedy="drop --attention-backend (vLLM then chooses one that can), or change what the reason names",
        versions="source of 0.32",
    ),
    Signature(
        name="value is none of the choices",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"error: argument (?P<flag>-\S+): invalid choice: '?(?P<value>[^'\n(]*?)'?"
        r" \(choose from (?P<choices>[^)]*)\)",
        cause="{flag} does not take '{value}'",
        remedy=choose,
        versions="0.32 on the CPU",
        derive=nearest_choice,
    ),
    Signature(
        name="value of the wrong kind",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"error: argument (?P<flag>-\S+): (?P<reason>[^\n]+)",
        cause="{flag} was given a value it does not take: {reason}",
        remedy="correct the value of {flag}",
        versions="0.32 on the CPU",
        weak=True,
    ),
    Signature(
        name="variable of the environment cannot be read",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r'vllm/envs\.py", line \d+, in \S+'
        r' (?:[^\n]{0,200}?(?:getenv|environ)[^\n]{0,40}?["\'](?P<variable>[A-Z][A-Z0-9_]+)["\'])?'
        r"[^\n]{0,200}(?:\n[ ^~]*)?(?:ValueError|TypeError|KeyError): (?P<reason>[^\n]+)",
        cause="the environment variable {variable} holds a value that vLLM cannot read: {reason}",
        remedy="correct {variable} where the server is started, or unset it; set and empty is not unset",
        versions="0.32 on the CPU",
        derive=_variable,
    ),
    Signature(
        name="number in a variable or flag",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"validation error for VllmConfig Value error, invalid literal for int\(\) with base"
        r" 10: '(?P<value>[^']*)'",
        cause="a setting that must be a whole number is '{value}' (a flag, or a VLLM_* variable such as "
        "VLLM_CPU_KVCACHE_SPACE)",
        remedy="give a whole number",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="value outside its range",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"validation errors? for \w+Config (?P<field>[a-z_]+) Input should be (?P<reason>[^\[\n]+)",
        cause="--{flag} was given a value it does not take: it should be {reason}",
        remedy="correct the value of --{flag}",
        versions="pydantic's own text (source)",
        derive=lambda figures, _: {"flag": str(figures["field"]).replace("_", "-")},
    ),
    Signature(
        name="utilization above 1",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"GPU memory utilization must be less than 1\.0\. Got (?P<value>[\d.]+\d)",
        cause="--gpu-memory-utilization is a share, and {value} is more than the whole GPU",
        remedy="use a share such as 0.9",
        versions="0.4 to 0.11 (source)",
    ),
    Signature(
        name="number format unknown",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"Unknown dtype: (?P<value>\w+)",
        cause="--dtype does not take '{value}'",
        remedy="use auto, half (float16), bfloat16 or float32",
        versions="0.4 to 0.8 (source)",
    ),
    Signature(
        name="batched tokens below the sequences",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"max_num_batched_tokens \((?P<max_num_batched_tokens>\d+)\) must be greater than or equal to"
        r" max_num_seqs \((?P<max_num_seqs>\d+)\)",
        cause="--max-num-batched-tokens {max_num_batched_tokens} holds no token for each of "
        "--max-num-seqs {max_num_seqs}",
        remedy="raise --max-num-batched-tokens above {max_num_seqs}, or lower --max-num-seqs",
        versions="source of 0.32",
    ),
    Signature(
        name="batched tokens below the length",
        category=Category.FLAG_VALUE_INVALID,
        pattern=r"max_num_batched_tokens \((?P<max_num_batched_tokens>\d+)\) is smaller than max_model_len"
        r" \((?P<max_model_len>\d+)\)",
        cause="without chunked prefill, --max-num-batched-tokens {max_num_batched_tokens} cannot hold "
        "one prompt of "
        "--max-model-len {max_model_len}",
        remedy="raise --max-num-batched-tokens to {max_model_len}, or leave chunked prefill on",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="tensor parallel size does not divide the heads",
        category=Category.TP_HEADS,
        pattern=r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by tensor"
        r" parallel size"
        r" \((?P<tensor_parallel_size>\d+)\)",
        cause="{heads} attention heads cannot be spread evenly over {tensor_parallel_size} GPUs",
        remedy="use a --tensor-parallel-size of {legal_sizes}, not above the number of GPUs",
        versions="vllm#2652, #11147, 0.32 on the CPU",
        derive=_divisors,
    ),
)
