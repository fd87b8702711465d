# SPDX-License-Identifier: Apache-2.0
"""More failures that nobody wrote down: wordings of other versions, platforms, libraries and shells."""

import json

import pytest

from tests.unit.diagnosis.test_boot_variations import CORE, traceback
from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.spec.category import Category

BOOT = "".join(f"INFO 11-30 06:44:4{second} [a.py:{second}] starting step {second}\n" for second in range(5))
FREE = (
    "ValueError: Free memory on device cuda:1 (10.1/79.1 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by others."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 3 has a total capacity of "
    "31.36 GiB of which 13.75 MiB is free. Including non-PyTorch memory, this process has 31.34 GiB in use."
)
RAY = "\x1b[36m(RayWorkerWrapper pid={pid})\x1b[0m ERROR 11-18 18:07:28 worker_base.py:464] "
USAGE = "usage: vllm serve [-h]\nvllm serve: error: "


def in_environment(message: str, source: str, prefix: str = CORE) -> str:
    """Return a traceback that ends where vLLM reads a variable of its environment."""
    frames = ["Traceback (most recent call last):", '  File "/x/vllm/envs.py", line 300, in <lambda>', source]
    return "".join(f"{prefix}{line}\n" for line in [*frames, message])


VARIATIONS: dict[str, tuple[str, Category]] = {
    "whole traceback in one JSON record": (
        BOOT
        + json.dumps({"levelname": "ERROR", "message": "EngineCore failed to start.\n" + traceback(FREE)}),
        Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    ),
    "traceback beside the message of a record": (
        BOOT + json.dumps({"message": "EngineCore failed to start.", "exc_info": traceback(FREE)}),
        Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    ),
    "Ray's repeats": (
        traceback(OOM, RAY.format(pid=88)) + f"{RAY.format(pid=89)}{OOM} [repeated 3x across cluster]\n",
        Category.OOM_WEIGHTS,
    ),
    "two containers in turns": (
        "".join(f"proxy-1 | GET /\nvllm-1  | {line}\n" for line in traceback(FREE, CORE).splitlines()),
        Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    ),
    "memory of an AMD GPU": (traceback(OOM.replace("CUDA", "HIP"), CORE), Category.OOM_WEIGHTS),
    "memory, newest torch": (
        traceback("torch.AcceleratorError: CUDA error: out of memory\nCUDA kernel errors might", CORE),
        Category.OOM_WEIGHTS,
    ),
    "memory, the driver's word": (
        traceback("RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be", CORE),
        Category.OOM_WEIGHTS,
    ),
    "method unknown, choices without quotes": (
        f"{USAGE}argument --quantization/-q: invalid choice: awqq (choose from awq, awq_marlin, gptq)",
        Category.QUANT_UNKNOWN,
    ),
    "method not on this platform": (
        traceback("ValueError: awq_marlin quantization is currently not supported in rocm."),
        Category.QUANT_HW_UNSUPPORTED,
    ),
    "no kernel for the layers": (
        traceback(
            "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons: x"
        ),
        Category.QUANT_HW_UNSUPPORTED,
    ),
    "dtype unknown, choices without quotes": (
        f"{USAGE}argument --kv-cache-dtype: invalid choice: fp9 (choose from auto, fp8)",
        Category.FLAG_VALUE_INVALID,
    ),
    "no model given": (
        f"{USAGE}the following arguments are required: model_tag",
        Category.FLAG_VALUE_INVALID,
    ),
    "value forgotten": (
        f"{USAGE}argument --max-model-len: expected one argument",
        Category.FLAG_VALUE_INVALID,
    ),
    "variable of another value": (
        in_environment(
            "ValueError: Invalid value 'FLASH' for VLLM_ATTENTION_BACKEND. Valid options: ['FLASH_ATTN']",
            "    raise ValueError(",
        ),
        Category.FLAG_VALUE_INVALID,
    ),
    "variable that is no number": (
        in_environment(
            "ValueError: could not convert string to float: 'ten'",
            '    "VLLM_RPC_TIMEOUT": lambda: float(os.getenv("VLLM_RPC_TIMEOUT", "10")),',
        ),
        Category.FLAG_VALUE_INVALID,
    ),
    "gated, request pending": (
        traceback(
            "huggingface_hub.errors.GatedRepoError: 403 Client Error.\n\nYour request is awaiting a review"
        ),
        Category.MODEL_DOWNLOAD_AUTH,
    ),
    "more workers than GPUs": (
        traceback("ValueError: World size (4) is larger than the number of available GPUs (2) in this node."),
        Category.NO_DEVICE,
    ),
    "more workers than Ray's GPUs": (
        traceback(
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the"
        ),
        Category.NO_DEVICE,
    ),
    "driver in disarray": (
        traceback("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment"),
        Category.NO_DEVICE,
    ),
    "port taken, IPv6": (
        "ERROR:    [Errno 98] error while attempting to bind on address ('::', 8000, 0, 0): address already "
        "in use\n",
        Category.PORT_IN_USE,
    ),
    "port taken, macOS": (traceback("OSError: [Errno 48] Address already in use"), Category.PORT_IN_USE),
    "port of torch taken, older words": (
        traceback(
            "RuntimeError: The server socket has failed to listen on any local network address. The server "
            "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
        ),
        Category.PORT_IN_USE,
    ),
    "architecture cannot be loaded": (
        traceback("ValueError: Model architectures ['Qwen3NextForCausalLM'] failed to be inspected. Please"),
        Category.MODEL_UNSUPPORTED,
    ),
    "fp8, older Triton": (
        traceback("AssertionError: fp8e4nv data type is not supported on CUDA arch < 89", CORE),
        Category.FP8_HW_UNSUPPORTED,
    ),
    "fp8, torch": (
        traceback("RuntimeError: torch._scaled_mm is only supported on CUDA devices with compute capability"),
        Category.FP8_HW_UNSUPPORTED,
    ),
    "length as a decimal": (
        traceback(
            "ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len "
            "(max_position_embeddings=40960.0 or model_max_length=None in model's config.json)."
        ),
        Category.MAX_LEN_TOO_LARGE,
    ),
    "length in thousands": (
        traceback(
            "ValueError: The model's max seq len (32,768) is larger than the maximum number of tokens that "
            "can be stored in KV cache (7,344). Try increasing `gpu_memory_utilization`",
            CORE,
        ),
        Category.KV_TOO_SMALL_FOR_MAX_LEN,
    ),
    "share above the whole": (
        traceback("ValueError: GPU memory utilization must be less than 1.0. Got 1.5."),
        Category.FLAG_VALUE_INVALID,
    ),
    "share above the whole, pydantic": (
        traceback(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig\n"
            "gpu_memory_utilization\n  Input should be less than or equal to 1 [type=less_than_equal]"
        ),
        Category.FLAG_VALUE_INVALID,
    ),
    "dtype unknown, older words": (traceback("ValueError: Unknown dtype: fp16"), Category.FLAG_VALUE_INVALID),
    "fewer tokens than sequences": (
        traceback(
            "ValueError: max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256)."
        ),
        Category.FLAG_VALUE_INVALID,
    ),
    "folder without a configuration": (
        traceback("ValueError: No supported config format found in /models/q."),
        Category.MODEL_NOT_AVAILABLE,
    ),
    "fp8 KV cache, older words": (
        traceback("RuntimeError: Unsupported data type of kv cache: fp8", CORE),
        Category.FP8_HW_UNSUPPORTED,
    ),
    "killed, says the shell": (f"{BOOT}Killed\n", Category.ENGINE_DIED),
    "killed, says bash in a script": (
        f"{BOOT}./run.sh: line 3:    77 Killed                  vllm serve m\n",
        Category.ENGINE_DIED,
    ),
    "bus error": (f"{BOOT}Bus error (core dumped)\n", Category.ENGINE_DIED),
    "crash below Python": (
        f"{BOOT}Fatal Python error: Segmentation fault\n\nThread 0x00007f (most recent call first):\n",
        Category.ENGINE_DIED,
    ),
}


@pytest.mark.parametrize("exit_code", [1, None])
@pytest.mark.parametrize(("log", "category"), VARIATIONS.values(), ids=VARIATIONS.keys())
def test_unseen_variation_is_classified(log: str, category: Category, exit_code: int | None) -> None:
    found = classify_boot(log, exit_code=exit_code)
    assert found is not None
    assert found.category is category


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("variable of another value", "VLLM_ATTENTION_BACKEND"),
        ("variable that is no number", "VLLM_RPC_TIMEOUT"),
    ],
)
def test_variable_is_named_wherever_it_stands(name: str, variable: str) -> None:
    found = classify_boot(VARIATIONS[name][0], exit_code=1)
    assert found is not None
    assert found.figures["variable"] == variable


def test_an_innermost_frame_of_other_code_is_no_variable() -> None:
    log = traceback("ValueError: invalid literal for int() with base 10: ''", CORE)
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is Category.UNKNOWN


def test_thousands_are_read_as_numbers() -> None:
    found = classify_boot(VARIATIONS["length in thousands"][0], exit_code=1)
    assert found is not None
    assert found.figures["fitting_len"] == 7344


def test_flag_outside_its_range_is_named_as_it_is_written() -> None:
    found = classify_boot(VARIATIONS["share above the whole, pydantic"][0], exit_code=1)
    assert found is not None
    assert found.remedy == "correct the value of --gpu-memory-utilization"
    assert "less than or equal to 1" in found.cause


def test_port_is_read_from_torchs_older_words() -> None:
    found = classify_boot(VARIATIONS["port of torch taken, older words"][0], exit_code=1)
    assert found is not None
    assert "port 29500" in found.cause
