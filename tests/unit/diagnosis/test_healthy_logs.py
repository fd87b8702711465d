# SPDX-License-Identifier: Apache-2.0
"""Healthy logs with frightening words in them: deprecations, recovered errors, requests that failed."""

import pytest

from vllm_perf.diagnosis.boot import classify_boot

STAMP = "11-30 06:44:46"
CORE = f"(EngineCore pid=3720) INFO {STAMP} [core.py:116] "
CORE_WARNING = f"(EngineCore pid=3720) WARNING {STAMP} [gpu_worker.py:560] "
CORE_ERROR = f"(EngineCore pid=3720) ERROR {STAMP} [gpu_worker.py:560] "
API = f"(APIServer pid=3611) INFO {STAMP} [api_utils.py:345] "
API_WARNING = f"(APIServer pid=3611) WARNING {STAMP} [api_utils.py:345] "
API_ERROR = f"(APIServer pid=3611) ERROR {STAMP} [serving.py:274] "
UP = (
    f"{API}Starting vLLM server on http://0.0.0.0:8000\n(APIServer pid=3611) INFO:     Application "
    "startup complete.\n"
)
BOOTING = (
    f"{API}Using max model len 8192\n{CORE}Initializing a V1 LLM engine (v0.26.0) with config: model='m'\n"
)


def recovered(message: str, prefix: str) -> str:
    frames = ["Traceback (most recent call last):", '  File "vllm/x.py", line 1, in f', "    g()", message]
    return "".join(f"{prefix}{line}\n" for line in frames)


# What stands between the first lines of a boot and the line that says it is up.
WHILE_BOOTING = {
    "deprecation": (
        f"{API_WARNING}`--model` is deprecated and will be removed: this will raise an error in the future.\n"
    ),
    "python's own deprecation": (
        "vllm/entrypoints/api_server.py:24: DeprecationWarning: `error` is deprecated\n  warnings.warn(\n"
    ),
    "quoted OSError": (
        f"{API_WARNING}This can cause fd limit errors like `OSError: [Errno 24] Too many open files`.\n"
    ),
    "triton missing": f"{CORE_WARNING}Triton is not installed. ImportError: No module named 'triton'.\n",
    "optional import failed": recovered("ModuleNotFoundError: No module named 'flashinfer'", CORE_WARNING),
    "recovered import": recovered("ImportError: cannot import name 'deep_gemm'", CORE_ERROR)
    + f"{CORE}Falling back to Triton.\n",
    "recovered out of memory": recovered(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", CORE_ERROR
    )
    + f"{CORE}Retrying graph capture with fewer sizes.\n",
    "no memory for blocks, as a hint": (
        f"{CORE_WARNING}No available memory for the cache blocks. would be raised above 0.9.\n"
    ),
    "NCCL warning": (
        "[rank0]:[W1130 06:46:43.25 ProcessGroupNCCL.cpp:1575] Warning: destroy_process_group() "
        "was not called\n"
    ),
    "socket warning": (
        "[W1130 06:44:21.158 socket.cpp:207] [c10d] The hostname of the client socket cannot be "
        "retrieved. err=-3\n"
    ),
    "tokenizer complaint": (
        "(EngineCore pid=3720) [transformers] The tokenizer you are loading with an incorrect "
        "regex pattern: error\n"
    ),
    "still waiting for a while": (
        f"(APIServer pid=3611) DEBUG {STAMP} [utils.py:1] Waiting for 1 local, 0 remote core engine "
        "proc(s) to start.\n"
    ),
    "hub retry": f"{API_WARNING}We couldn't connect to 'https://hub.example' to load this file, retrying.\n",
    "forced kernel": f"{API_WARNING}awq quantization is not fully optimized yet. The speed can be slower.\n",
    "backend ignored": f"{CORE}Cannot use AttentionBackendEnum.FLASH_ATTN backend on CPU.\n",
    "failed in a sentence": f"{CORE}0 of 51 graphs failed; no error occurred; nothing died unexpectedly.\n",
}

# What stands after it.
WHILE_SERVING = {
    "request for another model": (
        f"{API_ERROR}Error with model error=ErrorInfo(message='The model `x` does not exist.')\n"
    ),
    "request that was too long": recovered(
        "ValueError: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        API_ERROR,
    ),
    "request that raised": recovered(
        "ValueError: User-specified max_model_len (9) is greater than the derived max_model_len (8", API_ERROR
    ),
    "access log of failures": (
        '(APIServer pid=3611) INFO:     127.0.0.1:1 - "POST /v1/x HTTP/1.1" 500 Internal Server Error\n'
    ),
    "invalid request": "WARNING:  Invalid HTTP request received.\n",
    "preemption": (
        f"{CORE_WARNING}Sequence group 7 is preempted because there is not enough KV cache space: "
        "error rate\n"
    ),
    "client went away": (
        f"{API_ERROR}Exception in ASGI application: ConnectionResetError: [Errno 104] Connection "
        "reset by peer\n"
    ),
    "engine error on the way out": (
        f"(APIServer pid=3611) INFO {STAMP} [launcher.py:100] [shutdown] API server: shutdown triggered\n"
        + recovered("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", API_ERROR)
    ),
    "forced kill on the way out": (
        f"(EngineCore pid=3720) INFO {STAMP} [core.py:1313] [shutdown] EngineCore: trigger received "
        f"signal=SIGTERM\n"
        f"(APIServer pid=3611) WARNING {STAMP} [utils.py:626] [shutdown] Process manager: force "
        f"killing process EngineCore\n"
        "python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: leaked "
        "semaphore objects\n"
    ),
}


@pytest.mark.parametrize("text", WHILE_BOOTING.values(), ids=WHILE_BOOTING.keys())
def test_frightening_words_before_a_boot_that_succeeds_are_nothing(text: str) -> None:
    assert classify_boot(BOOTING + text + UP, exit_code=None) is None


@pytest.mark.parametrize("text", WHILE_BOOTING.values(), ids=WHILE_BOOTING.keys())
def test_frightening_words_while_it_still_boots_are_nothing(text: str) -> None:
    assert classify_boot(BOOTING + text, exit_code=None, alive=True) is None


@pytest.mark.parametrize("text", WHILE_SERVING.values(), ids=WHILE_SERVING.keys())
def test_frightening_words_of_a_serving_server_are_nothing(text: str) -> None:
    assert classify_boot(BOOTING + UP + text, exit_code=None) is None


@pytest.mark.parametrize("text", WHILE_SERVING.values(), ids=WHILE_SERVING.keys())
def test_frightening_words_of_a_stopped_server_are_nothing(text: str) -> None:
    assert classify_boot(BOOTING + UP + text, exit_code=0) is None


@pytest.mark.parametrize("text", WHILE_BOOTING.values(), ids=WHILE_BOOTING.keys())
def test_frightening_words_do_not_become_the_cause_of_another_failure(text: str) -> None:
    failure = recovered(
        "ValueError: Total number of attention heads (14) must be divisible by tensor parallel size (4).",
        CORE_ERROR,
    )
    found = classify_boot(BOOTING + text + failure, exit_code=1)
    assert found is not None
    assert found.category == "TP_HEADS"


def test_twenty_and_more_healthy_logs_are_tried() -> None:
    assert len(WHILE_BOOTING) + len(WHILE_SERVING) >= 20
