# SPDX-License-Identifier: Apache-2.0
"""Failures that nobody wrote down: other numbers, prefixes, wrapped lines, colours, interleaved processes."""

import json
import textwrap

import pytest

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.spec.category import Category

CORE = "(EngineCore_DP0 pid=501) ERROR 12-01 10:00:09 [core.py:866] "
API = "(APIServer pid=400) "
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
FREE = (
    "ValueError: Free memory on device cuda:0 (5.9/23.64 GiB) on startup is less than desired GPU "
    "memory utilization "
    "(0.92, 21.75 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
LENGTH = (
    "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV "
    "cache is needed, "
    "which is larger than the available KV cache memory (2.14 GiB). Based on the available memory, the "
    "estimated "
    "maximum model length is 15568. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
)
BF16 = (
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
    "Tesla V100-SXM2-32GB "
    "GPU has compute capability 7.0. You can use float16 instead."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total "
    "capacity of 79.25 GiB "
    "of which 512.31 MiB is free. Process 9001 has 78.70 GiB memory in use."
)


def traceback(message: str, prefix: str = "") -> str:
    frames = [
        "Traceback (most recent call last):",
        '  File "vllm/v1/engine/core.py", line 857, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, **kwargs)",
        "                  ^^^^^^^^^^^^^^",
    ]
    return "".join(f"{prefix}{line}\n" for line in [*frames, *message.split("\n")])


def wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width))


def cut_inside_words(text: str, width: int) -> str:
    return "\n".join(text[start : start + width] for start in range(0, len(text), width))


def interleaved(message: str) -> str:
    """Let two workers fail at once, each of their lines between the other's and the API server's."""
    first = traceback(
        message, "(Worker_TP0 pid=601) ERROR 12-01 10:00:09 [multiproc_executor.py:750] "
    ).splitlines()
    second = traceback(
        message, "(Worker_TP1 pid=602) ERROR 12-01 10:00:09 [multiproc_executor.py:750] "
    ).splitlines()
    noise = [
        f"{API}DEBUG 12-01 10:00:09 [utils.py:1] Waiting for 1 local, 0 remote core engine proc(s) to start."
    ]
    pairs = [line for pair in zip(first, second, strict=True) for line in (*pair, *noise)]
    return "\n".join([*pairs, API + WRAPPER]) + "\n"


def as_json_lines(text: str) -> str:
    return "".join(json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n" for line in text.splitlines())


VARIATIONS: dict[str, tuple[str, Category]] = {
    "other numbers, device named": (
        traceback(FREE, CORE) + API + WRAPPER,
        Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    ),
    "wrapped at 80 columns": (wrapped(FREE, 80), Category.GPU_BUSY_OR_UTIL_TOO_HIGH),
    "wrapped at 40 columns": (wrapped(LENGTH, 40), Category.KV_TOO_SMALL_FOR_MAX_LEN),
    "cut inside words": (cut_inside_words(LENGTH, 72), Category.KV_TOO_SMALL_FOR_MAX_LEN),
    "cut inside words and numbers": (cut_inside_words(FREE, 31), Category.GPU_BUSY_OR_UTIL_TOO_HIGH),
    "wrapped after a prefix": (CORE + wrapped(FREE, 60), Category.GPU_BUSY_OR_UTIL_TOO_HIGH),
    "colour codes": (
        traceback(f"\x1b[1;35mValueError\x1b[0m: \x1b[35m{FREE.removeprefix('ValueError: ')}\x1b[0m", CORE),
        Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    ),
    "interleaved workers": (interleaved(OOM), Category.OOM_WEIGHTS),
    "interleaved and in docker": (
        "\n".join(f"serve-1  | {line}" for line in interleaved(BF16).splitlines()),
        Category.DTYPE_HW_UNSUPPORTED,
    ),
    "JSON lines of docker": (as_json_lines(traceback(LENGTH, CORE)), Category.KV_TOO_SMALL_FOR_MAX_LEN),
    "syslog": (
        "".join(f"Dec  1 10:00:09 gpu7 vllm[77]: {line}\n" for line in traceback(FREE, CORE).splitlines()),
        Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    ),
    "Ray's own prefix": (
        traceback(
            BF16,
            "(EngineCore pid=501) (RayWorkerWrapper pid=88, ip=192.0.2.4) ERROR 12-01 10:00:09 [r.py:1] ",
        ),
        Category.DTYPE_HW_UNSUPPORTED,
    ),
    "Windows line ends": (traceback(LENGTH, CORE).replace("\n", "\r\n"), Category.KV_TOO_SMALL_FOR_MAX_LEN),
    "pydantic around it": (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n  Value "
        "error, Total number "
        "of attention heads (28) must be divisible by tensor parallel size (8). [type=value_error, "
        "input_type=X]",
        Category.TP_HEADS,
    ),
    "cause in a chain": (
        traceback("KeyError: 'awq'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("ValueError: Unknown quantization method: awqq. Must be one of ['awq', 'gptq']."),
        Category.QUANT_UNKNOWN,
    ),
    "two flags unknown": (
        "usage: api_server.py [-h] [--max-model-len N]\napi_server.py: error: unrecognized arguments: "
        "--max-modle-len 4096 --foo",
        Category.FLAG_UNKNOWN,
    ),
    "flag of a newer vLLM": (
        "usage: vllm serve [-h]\nvllm serve: error: unrecognized arguments: --attention-backend FLASH_ATTN",
        Category.FLAG_UNKNOWN,
    ),
    "value out of range": (
        "vllm serve: error: argument --gpu-memory-utilization: invalid float value: '0,9'",
        Category.FLAG_VALUE_INVALID,
    ),
    "port taken after startup complete": (
        "INFO:     Application startup complete.\nERROR:    [Errno 98] error while attempting to bind "
        "on address "
        "('127.0.0.1', 8000): [errno 98] address already in use\nINFO:     Waiting for application "
        "shutdown.\n"
        "INFO:     Application shutdown complete.",
        Category.PORT_IN_USE,
    ),
    "port of torch taken": (
        traceback(
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
            "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
            "already in use"
        ),
        Category.PORT_IN_USE,
    ),
    "no driver": (traceback("RuntimeError: Found no NVIDIA driver on your system."), Category.NO_DEVICE),
    "library of the driver missing": (
        traceback("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
        Category.NO_DEVICE,
    ),
    "extension built for another torch": (
        traceback("ImportError: /x/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"),
        Category.IMPORT_ERROR,
    ),
    "misspelt hub id": (
        traceback(
            "OSError: Qwen/Qwen2.5-7B-Instrukt is not a local folder and is not a valid model "
            "identifier listed on "
            "'https://hub.example/models'\nIf this is a private repository, pass a token"
        ),
        Category.MODEL_NOT_AVAILABLE,
    ),
    "architecture unknown": (
        traceback(
            "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported: "
            "dict_keys([])"
        ),
        Category.MODEL_UNSUPPORTED,
    ),
    "length above the model's": (
        traceback(
            "ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len "
            "(max_position_embeddings=32768 or model_max_length=None in model's config.json)."
        ),
        Category.MAX_LEN_TOO_LARGE,
    ),
    "AWQ in bfloat16": (
        traceback(
            "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported dtypes: "
            "[torch.float16]"
        ),
        Category.QUANT_MISMATCH,
    ),
    "scheme on an old GPU": (
        traceback(
            "RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min "
            "capability: 80. ', "
            "'Current capability: 75.')"
        ),
        Category.QUANT_HW_UNSUPPORTED,
    ),
    "worker killed while booting": (
        "(EngineCore pid=5) ERROR 12-01 10:00:09 [multiproc_executor.py:315] Worker proc VllmWorker-1 "
        "died unexpectedly, "
        "shutting down executor.\n" + traceback("RuntimeError: cancelled", "(EngineCore pid=5) "),
        Category.ENGINE_DIED,
    ),
}


@pytest.mark.parametrize(("log", "category"), VARIATIONS.values(), ids=VARIATIONS.keys())
def test_unseen_variation_is_classified(log: str, category: Category) -> None:
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is category


def test_numbers_survive_being_cut_apart() -> None:
    found = classify_boot(cut_inside_words(FREE, 31), exit_code=1)
    assert found is not None
    # 5.9 / 23.64 = 0.2496, rounded down
    assert found.figures["fitting_utilization"] == 0.24


def test_first_unknown_flag_is_the_one_that_is_named() -> None:
    found = classify_boot(VARIATIONS["two flags unknown"][0], exit_code=2)
    assert found is not None
    assert found.figures["flag"] == "--max-modle-len"
    assert found.remedy == "write --max-model-len"
