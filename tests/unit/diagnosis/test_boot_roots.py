# SPDX-License-Identifier: Apache-2.0
"""Which of several errors is the root cause, and what is said where there is none."""

import pytest

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.boot_context import read_argv
from vllm_perf.spec.category import Category

CORE = "(EngineCore_DP0 pid=501) ERROR 12-01 10:00:09 [core.py:866] "
API = "(APIServer pid=400) "
WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
FREE = (
    "ValueError: Free memory on device cuda:0 (5.9/23.64 GiB) on startup is less than desired GPU "
    "memory utilization "
    "(0.92, 21.75 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
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


def test_h45_first_error_of_the_engine_is_reported_not_the_last_line() -> None:
    log = traceback("FrobnicationError: no frobs left on line 7", CORE) + traceback(WRAPPER, API)
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is Category.UNKNOWN
    assert "FrobnicationError: no frobs left" in found.evidence


@pytest.mark.parametrize(
    ("exit_code", "word"), [(-9, "SIGKILL"), (137, "SIGKILL"), (-11, "SIGSEGV"), (1, "exit code 1")]
)
def test_h45_death_without_a_python_error_says_how_the_process_ended(exit_code: int, word: str) -> None:
    found = classify_boot(f"INFO 12-01 10:00:01 [x.py:1] Loading\n{API}{WRAPPER}", exit_code=exit_code)
    assert found is not None
    assert found.category is Category.ENGINE_DIED
    assert "without a Python error" in found.cause
    assert word in found.cause


@pytest.mark.parametrize(
    "line",
    [
        "(APIServer pid=4) DEBUG 12-01 10:00:09 [utils.py:1] Waiting for 1 local, 0 remote core engine "
        "proc(s) to start.",
        "DEBUG 05-06 10:00:09 [core_client.py:425] Waiting for 1 core engine proc(s) to start: {0}",
    ],
)
def test_h46_hang_is_a_timeout_with_the_last_progress_line(line: str) -> None:
    found = classify_boot(f"{line}\n" * 30, exit_code=None, alive=True, elapsed_s=300.0)
    assert found is not None
    assert found.category is Category.BOOT_TIMEOUT
    assert "Waiting for 1" in found.evidence
    assert "never reports" in found.cause


def test_engine_that_failed_under_an_api_server_that_hangs_on_is_not_a_timeout() -> None:
    log = f"{CORE}EngineCore failed to start.\n" + traceback(FREE, CORE)
    found = classify_boot(log, exit_code=None, alive=True, elapsed_s=600)
    assert found is not None
    assert found.category is Category.GPU_BUSY_OR_UTIL_TOO_HIGH


def test_h53_memory_failure_with_prefix_caching_offers_a_comparison_without_blaming_it() -> None:
    log = (
        "(EngineCore pid=1) INFO 12-01 10:00:01 [core.py:1] Initializing a V1 LLM engine (v0.26) "
        "with config: "
    )
    log += f"model='m', enable_prefix_caching=True\n{OOM}"
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is Category.OOM_WEIGHTS
    assert "--no-enable-prefix-caching" in found.remedy
    assert "prefix" not in found.cause


def test_key_in_a_boot_log_is_hidden() -> None:
    log = "INFO 12-01 10:00:01 [x.py:1] args: {'api_key': ['correct-horse-7']}\nRuntimeError: correct-horse-7"
    found = classify_boot(log, exit_code=1, argv=("--api-key", "correct-horse-7"))
    assert found is not None
    assert "correct-horse" not in found.paragraph()


def test_first_of_two_root_causes_is_the_one_that_is_named() -> None:
    second = traceback("ValueError: Unknown quantization method: x. Must be one of ['awq'].", API)
    found = classify_boot(traceback(FREE, CORE) + second, exit_code=1)
    assert found is not None
    assert found.category is Category.GPU_BUSY_OR_UTIL_TOO_HIGH


def test_error_that_its_process_survived_is_not_the_cause() -> None:
    recovered = traceback("ValueError: No available memory for the cache blocks.", CORE)
    went_on = "(EngineCore_DP0 pid=501) INFO 12-01 10:00:10 [core.py:1] Trying again with a smaller batch\n"
    found = classify_boot(recovered + went_on + traceback(BF16, CORE), exit_code=1)
    assert found is not None
    assert found.category is Category.DTYPE_HW_UNSUPPORTED


def test_survived_error_is_better_than_nothing_where_the_server_died() -> None:
    recovered = traceback("ValueError: No available memory for the cache blocks.", CORE)
    went_on = "(EngineCore_DP0 pid=501) INFO 12-01 10:00:10 [core.py:1] Trying again\n"
    found = classify_boot(recovered + went_on, exit_code=1)
    assert found is not None
    assert found.category is Category.KV_ZERO


def test_prefix_caching_is_not_mentioned_where_it_is_not_known_to_be_on() -> None:
    found = classify_boot(traceback(OOM, CORE), exit_code=1)
    assert found is not None
    assert "prefix" not in found.remedy


def test_requests_errors_before_a_later_death_are_not_its_cause() -> None:
    up = "(APIServer pid=400) INFO:     Application startup complete.\n"
    request = traceback(
        "ValueError: User-specified max_model_len (9) is greater than the derived max_model_len (x=8 or y",
        "(APIServer pid=400) ERROR 12-01 10:00:09 [serving.py:866] ",
    )
    killed = "(APIServer pid=400) WARNING 12-01 10:05:09 [c.py:1] MPClient: engine core exited unexpectedly\n"
    found = classify_boot(up + request + killed, exit_code=0)
    assert found is not None
    assert found.category is Category.ENGINE_DIED


def test_error_that_the_boot_survived_is_not_the_cause_of_a_later_death() -> None:
    survived = traceback("ValueError: No available memory for the cache blocks.", CORE)
    up = "(APIServer pid=400) INFO:     Application startup complete.\n"
    killed = "(APIServer pid=400) WARNING 12-01 10:05:09 [c.py:1] MPClient: engine core exited unexpectedly\n"
    found = classify_boot(survived + up + killed, exit_code=0)
    assert found is not None
    assert found.category is Category.ENGINE_DIED


def test_command_line_is_read_in_all_its_forms() -> None:
    argv = (
        "vllm",
        "serve",
        "m",
        "--port",
        "8000",
        "--max-model-len=4096",
        "--enforce-eager",
        "--no-enable-x",
    )
    assert read_argv(argv) == {
        "port": "8000",
        "max_model_len": "4096",
        "enforce_eager": "True",
        "enable_x": "False",
    }
