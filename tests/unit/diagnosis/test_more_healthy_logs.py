# SPDX-License-Identifier: Apache-2.0
"""More healthy logs with frightening words: autotuning, fall-backs, destructors, prompts."""

import pytest

from tests.unit.diagnosis.test_healthy_logs import (
    API,
    API_ERROR,
    API_WARNING,
    BOOTING,
    CORE,
    CORE_ERROR,
    CORE_WARNING,
    STAMP,
    UP,
    recovered,
)
from vllm_perf.diagnosis.boot import classify_boot

INDUCTOR = "[rank0]: E1130 06:44:46.123000 123 torch/_inductor/select_algorithm.py:1234] "
HEADS = "ValueError: Total number of attention heads (14) must be divisible by tensor parallel size (4)."
GONE = f"(APIServer pid=3611) WARNING {STAMP} [c.py:1] MPClient: engine core exited unexpectedly\n"

WHILE_BOOTING = {
    "autotuning": f"{INDUCTOR}Runtime error during autotuning: \n{INDUCTOR}out of resource: shared memory\n",
    "configuration too large": recovered("triton.runtime.errors.OutOfResources: shared memory", CORE_ERROR)
    + f"{CORE}Skipping this configuration.\n",
    "library missing, older words": (
        f"WARNING {STAMP} _custom_ops.py:14] Failed to import from vllm._C with "
        "ModuleNotFoundError(\"No module named 'vllm._C'\")\n"
    ),
    "kernel configuration missing": f"{CORE_WARNING}Config file not found at ['/x/E=8.json']: sub-optimal!\n",
    "port of torch, second try": (
        "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address "
        "already in use).\n"
    ),
    "next port": f"INFO {STAMP} [network_utils.py:5] Port 8000 is already in use, trying port 8001\n",
    "destructor": (
        "Exception ignored in: <function ExternalProcess.__del__ at 0x7f11>\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in __del__\n    self.f()\n'
        "AttributeError: 'NoneType' object has no attribute 'f'\n"
    ),
    "fork": "huggingface/tokenizers: The process just got forked. Disabling parallelism: deadlocks...\n",
    "memory, caught": f"{CORE_WARNING}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n",
    "deprecated library": (
        "/x/torch/cuda/__init__.py:63: FutureWarning: RuntimeError: Found no NVIDIA driver on your system.\n"
        "  import pynvml\n"
    ),
    "fp8 scale": f"{CORE_WARNING}Scaling factor 1.0: FP8 KV cache not supported natively.\n",
    "optional file": f"{API_WARNING}404 Client Error: Entry Not Found for url: https://hub.example/x.json\n",
    "clean-up": f"{CORE}Waiting for 0 workers; none died; Killed 0 stale processes\n",
    "slow path": f"{API_WARNING}gptq quantization is currently not supported in this path; using another\n",
    "other kernel": f"{CORE}Failed to find a kernel that can implement the fast linear layer, using Marlin\n",
    "shell": "entrypoint.sh: line 12: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n",
    "network plugin": "gpu7:1:22 [0] NCCL WARN NET/Plugin: Failed to find symbol, fatal error avoided.\n",
    "deprecated flag": f"{API_WARNING}'--disable-log-requests' soon: error: unrecognized arguments: x\n",
    "length allowed": (
        f"{API_WARNING}User-specified max_model_len (65536) is greater than the derived max_model_len "
        "(max_position_embeddings=32768.0). VLLM_ALLOW_LONG_MAX_MODEL_LEN: be careful.\n"
    ),
    "unmatched namespace": '/x/pydantic/_fields.py:160: UserWarning: Field "model_error" conflicts\n\nYou\n',
}

WHILE_SERVING = {
    "prompt that quotes an end": (
        f"{API}Received request cmpl-1: prompt: 'engine core exited unexpectedly; KeyboardInterrupt', n=1\n"
    ),
    "answer that quotes an end": f"{API}Generated response cmpl-1: output: 'Received signal 15'\n",
    "cancelled task": f"{API_ERROR}Task exception was never retrieved\n"
    + recovered("asyncio.exceptions.CancelledError", API_ERROR),
    "chat template": recovered("jinja2.exceptions.TemplateError: Roles must alternate", API_ERROR),
    "wrong path": 'INFO:     192.0.2.1:5000 - "GET /v1/metrics HTTP/1.1" 404 Not Found\n',
    "wrong keys": 'INFO:     192.0.2.1:5000 - "GET /v1/models HTTP/1.1" 401 Unauthorized\n' * 5,
    "web server": (
        'ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File "x.py", line 1\n'
        "RuntimeError: Caught handled exception, but response already started.\n"
    ),
    "tool call": recovered("json.decoder.JSONDecodeError: Expecting value: line 1 column 1", API_ERROR),
    "image refused": recovered("ValueError: At most 1 image(s) may be provided in one prompt.", API_ERROR),
    "transfer repeated": f"{CORE_WARNING}NIXL handshake timed out; request failed; error count 1\n",
}


@pytest.mark.parametrize("text", WHILE_BOOTING.values(), ids=WHILE_BOOTING.keys())
def test_frightening_words_of_a_boot_are_nothing(text: str) -> None:
    assert classify_boot(BOOTING + text + UP, exit_code=None) is None
    assert classify_boot(BOOTING + text, exit_code=None, alive=True) is None


@pytest.mark.parametrize("text", WHILE_BOOTING.values(), ids=WHILE_BOOTING.keys())
def test_frightening_words_are_not_the_cause_of_another_failure(text: str) -> None:
    found = classify_boot(BOOTING + text + recovered(HEADS, CORE_ERROR), exit_code=1)
    assert found is not None
    assert found.category == "TP_HEADS"
    killed = classify_boot(BOOTING + text + f"{CORE}Loading weights\n", exit_code=-9)
    assert killed is not None
    assert killed.category == "ENGINE_DIED"


@pytest.mark.parametrize("exit_code", [None, 0, -15])
@pytest.mark.parametrize("text", WHILE_SERVING.values(), ids=WHILE_SERVING.keys())
def test_frightening_words_of_a_serving_server_are_nothing(text: str, exit_code: int | None) -> None:
    assert classify_boot(BOOTING + UP + text, exit_code=exit_code) is None


@pytest.mark.parametrize(("end", "exit_code"), [(GONE, 0), ("", -9), ("", 137)])
@pytest.mark.parametrize("text", WHILE_SERVING.values(), ids=WHILE_SERVING.keys())
def test_requests_that_failed_are_not_why_a_server_was_killed(text: str, end: str, exit_code: int) -> None:
    found = classify_boot(BOOTING + UP + text + end, exit_code=exit_code)
    assert found is not None
    assert found.category == "ENGINE_DIED"
    assert "killed" in found.remedy
