# SPDX-License-Identifier: Apache-2.0
"""Boots of real vLLM on the CPU that must fail: what is named, how fast, and that nothing is left running."""

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fixtures.booting import Booter, Change
from vllm_perf.doctor.logfile import examine_log
from vllm_perf.engine.process import EngineProcess
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import FlagValue

pytestmark = pytest.mark.real_engine

NOTICED_WITHIN_S = 2.0
HANGS_FOR_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One engine that cannot boot: what is changed, and what must be said about it."""

    category: Category
    evidence: str
    remedy: str
    base: str = "cpu-initial"
    model: str | None = None
    flags: dict[str, FlagValue] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


SCENARIOS: dict[str, Scenario] = {
    "AWQ weights, gptq asked": Scenario(
        base="cpu-awq",
        flags={"quantization": "gptq"},
        category=Category.QUANT_MISMATCH,
        evidence="does not match the quantization method specified in the `quantization` argument (gptq)",
        remedy="drop --quantization",
    ),
    "plain weights, awq asked": Scenario(
        flags={"quantization": "awq"},
        category=Category.QUANT_MISMATCH,
        evidence="Cannot find the config file for awq",
        remedy="drop --quantization",
    ),
    "unknown method": Scenario(
        flags={"quantization": "awqq"},
        category=Category.QUANT_UNKNOWN,
        evidence="Unknown quantization method: awqq",
        remedy="use awq",
    ),
    "unknown flag": Scenario(
        flags={"attention-backnd": "CPU_ATTN"},
        category=Category.FLAG_UNKNOWN,
        evidence="unrecognized arguments: --attention-backnd",
        remedy="write --attention-backend",
    ),
    "length above the model's": Scenario(
        flags={"max-model-len": 1_000_000},
        category=Category.MAX_LEN_TOO_LARGE,
        evidence="User-specified max_model_len (1000000) is greater",
        remedy="--max-model-len 32768",
    ),
    "KV cache above the memory": Scenario(
        env={"VLLM_CPU_KVCACHE_SPACE": "4000"},
        category=Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
        evidence="less than requested memory for kv (4000.0 GiB)",
        remedy="VLLM_CPU_KVCACHE_SPACE",
    ),
    # 14 layers x 2 (K, V) x 2 heads x 64 x 2 bytes = 7 KiB a token: 500,000 need 3.3 GiB; 1 holds 149,796.
    "KV cache below one request": Scenario(
        flags={"max-model-len": 500_000},
        env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
        category=Category.KV_TOO_SMALL_FOR_MAX_LEN,
        evidence="3.34 GiB KV cache is needed",
        remedy="use --max-model-len 149",
    ),
    "no such folder": Scenario(
        model="/nonexistent/model",
        category=Category.MODEL_NOT_AVAILABLE,
        evidence="/nonexistent/model",
        remedy="config.json",
    ),
    "no such model, offline": Scenario(
        model="nobody/does-not-exist-7b",
        category=Category.MODEL_NOT_AVAILABLE,
        evidence="outgoing traffic has been disabled",
        remedy="HF_HUB_OFFLINE",
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_engine_that_cannot_boot_says_why(booter: Booter, changed: Change, scenario: Scenario) -> None:
    spec = changed(scenario.base, scenario.flags)
    changes = {"env": {**spec.env, **scenario.env}, "model": scenario.model or spec.model}
    diagnosis = booter.failure(spec.model_copy(update=changes)).diagnosis
    assert diagnosis.category is scenario.category, diagnosis.paragraph()
    assert scenario.evidence in diagnosis.evidence
    assert scenario.remedy in diagnosis.remedy
    assert booter.noticed_s is not None
    assert booter.noticed_s < NOTICED_WITHIN_S
    assert diagnosis.log_path is not None
    assert examine_log(Path(diagnosis.log_path)).diagnosis.category is scenario.category


def test_backend_that_the_platform_ignores_is_refused(booter: Booter, changed: Change) -> None:
    spec = changed("cpu-initial", {"attention-backend": "FLASH_ATTN"})
    expect = spec.expect.model_copy(update={"attention_backend": "FLASH_ATTN"})
    diagnosis = booter.failure(spec.model_copy(update={"expect": expect})).diagnosis
    assert diagnosis.category is Category.BACKEND_NOT_APPLIED
    assert "attention_backend: asked FLASH_ATTN, runs CPU_ATTN" in diagnosis.evidence
    assert "expect" in diagnosis.remedy
    assert diagnosis.log_path is not None
    assert examine_log(Path(diagnosis.log_path)).diagnosis.category is Category.BACKEND_NOT_APPLIED


@pytest.fixture
def taken_port() -> Iterator[int]:
    """Hold a port: whoever connects waits for an answer that never comes. Another port is tried once."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_port_that_someone_holds_is_named(
    booter: Booter, changed: Change, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vllm_perf.engine.boot.free_port", lambda: taken_port)
    diagnosis = booter.failure(changed("cpu-initial")).diagnosis
    assert diagnosis.category is Category.PORT_IN_USE, diagnosis.paragraph()
    assert str(taken_port) in diagnosis.cause
    assert "address already in use" in diagnosis.evidence.lower()
    assert "port" in diagnosis.remedy
    assert booter.noticed_s is not None
    assert booter.noticed_s < NOTICED_WITHIN_S


def test_boot_that_hangs_is_given_up_in_time_and_ended(
    booter: Booter, changed: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = EngineProcess.look
    halted: list[int] = []

    def halting(process: EngineProcess) -> int | None:
        code = look(process)
        if not halted and process.log_text():
            halted.append(process.popen.pid)
            os.killpg(process.popen.pid, signal.SIGSTOP)
        return code

    monkeypatch.setattr(EngineProcess, "look", halting)
    diagnosis = booter.failure(changed("cpu-initial", boot_timeout_s=HANGS_FOR_S)).diagnosis
    assert halted
    assert diagnosis.category is Category.BOOT_TIMEOUT, diagnosis.paragraph()
    assert f"{HANGS_FOR_S} s" in diagnosis.cause
    assert diagnosis.evidence
    assert diagnosis.remedy
    # 3 s of patience for processes that take no signal, and what a busy machine adds.
    assert booter.took_s < HANGS_FOR_S + 10
