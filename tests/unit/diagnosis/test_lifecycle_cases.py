# SPDX-License-Identifier: Apache-2.0
"""The cases of the process life cycle, as far as a diagnosis is theirs, on logs of real vLLM."""

from pathlib import Path

import pytest

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.runtime import ProcessState, classify_runtime
from vllm_perf.spec.category import Category

LOGS = Path(__file__).parent / "data" / "logs"
STATS = (
    "(APIServer pid=1) INFO 11-30 06:26:{second} [loggers.py:335] Engine 000: Avg prompt throughput: "
    "0.0 tokens/s, "
    "Avg generation throughput: {rate} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU "
    "KV cache usage: "
    "0.0%, Prefix cache hit rate: 77.1%\n"
)


def read(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def stats(rate: float, running: int, waiting: int) -> str:
    return "".join(
        STATS.format(second=second, rate=rate, running=running, waiting=waiting) for second in (23, 33, 43)
    )


def test_h77_memory_held_by_the_server_before_is_named_with_its_pid() -> None:
    log = (
        "Process 26825 has 56.03 GiB memory in use.\nValueError: Free memory on device cuda:0 "
        "(22.27/79.25 GiB) on startup "
        "is less than desired GPU memory utilization (0.7, 55.48 GiB)."
    )
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is Category.GPU_BUSY_OR_UTIL_TOO_HIGH
    assert found.figures["holder_pid"] == 26825
    assert found.remedy.startswith("stop process 26825")


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 44319): address "
        "already in use",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 44319): [errno 98] "
        "address already in "
        "use\nINFO 11-30 06:00:00 launcher.py:50] port 44319 is used by process psutil.Process(pid=7, "
        "name='pt_main')",
    ],
)
def test_h78_port_taken_after_startup_complete_is_no_healthy_boot(line: str) -> None:
    log = f"INFO:     Application startup complete.\n{line}\nINFO:     Application shutdown complete.\n"
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is Category.PORT_IN_USE
    assert "port 44319" in found.cause


def test_h79_hung_engine_behind_a_healthy_api_is_stalled() -> None:
    found = classify_runtime(read("cpu-0.32-real-engine-suspended"), ProcessState(), request_timed_out=True)
    assert found is not None
    assert found.category is Category.ENGINE_STALLED
    assert "/health does not notice" in found.remedy


def test_h79_waiting_requests_without_throughput_are_a_stall() -> None:
    found = classify_runtime(stats(0.0, 0, 3), ProcessState())
    assert found is not None
    assert found.category is Category.ENGINE_STALLED
    assert found.figures == {"running": 0, "waiting": 3}


@pytest.mark.parametrize(("rate", "running", "waiting"), [(0.0, 0, 0), (38.4, 2, 3)])
def test_idle_and_working_engines_are_not_stalled(rate: float, running: int, waiting: int) -> None:
    assert classify_runtime(stats(rate, running, waiting), ProcessState(engine_alive=True)) is None


@pytest.mark.parametrize("exit_code", [0, 1])
def test_h80_child_that_exits_before_it_serves_is_noticed_whatever_its_code(exit_code: int) -> None:
    found = classify_boot("INFO 11-30 06:00:00 [x.py:1] Starting\n", exit_code=exit_code)
    assert found is not None
    assert found.category is Category.ENGINE_DIED
    assert found.figures == {"exit_code": exit_code}


@pytest.mark.parametrize(
    "log", ["", 'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable\n' * 9]
)
def test_h80_server_that_never_gets_ready_is_a_boot_timeout(log: str) -> None:
    found = classify_boot(log, exit_code=None, alive=True, elapsed_s=120)
    assert found is not None
    assert found.category is Category.BOOT_TIMEOUT


@pytest.mark.parametrize("name", ["cpu-0.32-real-engine-killed", "cpu-0.32-real-worker-killed"])
def test_dead_engine_in_mid_stream_is_named_although_the_server_leaves_with_code_0(name: str) -> None:
    found = classify_runtime(read(name), ProcessState(exit_code=0))
    assert found is not None
    assert found.category is Category.ENGINE_DIED
    assert "died unexpectedly" in found.evidence or "exited unexpectedly" in found.evidence
    assert "out-of-memory killer" in found.remedy


def test_dead_engine_is_named_from_the_tail_of_a_log() -> None:
    text = read("cpu-0.32-real-engine-killed")
    found = classify_runtime(text[text.index("engine core exited") - 200 :], ProcessState())
    assert found is not None
    assert found.category is Category.ENGINE_DIED


def test_engine_process_that_is_gone_without_a_word_was_killed() -> None:
    found = classify_runtime(stats(0.0, 0, 0), ProcessState(engine_alive=False))
    assert found is not None
    assert found.category is Category.ENGINE_DIED


def test_engine_that_runs_out_of_memory_while_serving_says_so() -> None:
    log = (
        "(EngineCore pid=5) INFO 11-30 06:00:00 [m.py:1] Model loading took 14.2 GiB and 2.0 seconds\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        "(EngineCore pid=5) ERROR 11-30 06:10:00 [core.py:1] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=5) ERROR 11-30 06:10:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. "
        "Tried to allocate 3.10 GiB.\n"
    )
    found = classify_runtime(log, ProcessState())
    assert found is not None
    assert found.category is Category.OOM_RUNTIME


def test_server_that_was_stopped_properly_is_nobodys_fault() -> None:
    assert classify_runtime(read("gpu-0.26-serves-then-stops"), ProcessState(exit_code=0)) is None
