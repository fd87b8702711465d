# SPDX-License-Identifier: Apache-2.0
"""Real vLLM that dies or hangs while it serves: requests fail at once with the cause, and nothing is left."""

import json
import re
import signal
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from fixtures.booting import Booter, Change, leftovers
from vllm_perf.diagnosis.runtime import ProcessState, classify_runtime
from vllm_perf.doctor.patient import Patient
from vllm_perf.doctor.server import examine
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.http import ask
from vllm_perf.engine.process import EngineProcess
from vllm_perf.engine.tree import alive, port_owners
from vllm_perf.load.plan import Target
from vllm_perf.load.remedies import remedy_for
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.single import send_one
from vllm_perf.spec.category import Category

pytestmark = pytest.mark.real_engine

FAILS_WITHIN_S = 5.0
SEEN_OF_A_DEAD_ENGINE = {
    Category.IN_BAND_ERROR: "EngineCore encountered an issue",
    Category.TRUNCATED_STREAM: "the connection was",
}
GENERATED = re.compile(r"^vllm:generation_tokens_total\{.*\} (?P<count>[\d.e+]+)$", re.MULTILINE)


def _process(engine: Engine) -> EngineProcess:
    assert engine.process is not None
    engine.process.look()
    return engine.process


def _engine_side(engine: Engine) -> list[psutil.Process]:
    """Return everything below the API server: EngineCore and its workers."""
    process = _process(engine)
    return [part for part in process.seen if part.pid != process.popen.pid and alive(part)]


def _core(engine: Engine) -> psutil.Process:
    found = [part for part in _engine_side(engine) if "EngineCor" in " ".join([part.name(), *part.cmdline()])]
    assert len(found) == 1, [(part.pid, part.name(), part.cmdline()) for part in _engine_side(engine)]
    return found[0]


def _generated(engine: Engine) -> float:
    found = GENERATED.search(ask(f"{engine.root_url}/metrics").body.decode("utf-8", "replace"))
    return float(found["count"]) if found else 0.0


def _until(true: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.05)


def _break_in_midstream(engine: Engine, strike: Callable[[], None]) -> tuple[RequestSample, float]:
    """Stream a long answer, strike once it flows; return the sample and how long it took to fail."""
    body = {
        "model": engine.target.model,
        "prompt": "a",
        "max_tokens": 3500,
        "ignore_eos": True,
        "stream": True,
    }
    target = Target(base_url=engine.target.base_url, model=engine.target.model)
    before = _generated(engine)
    samples: list[RequestSample] = []

    def send() -> None:
        samples.append(send_one(target, json.dumps(body).encode(), endpoint="completions", timeout_s=120))

    thread = threading.Thread(target=send)
    thread.start()
    _until(lambda: _generated(engine) > before + 5, 60)
    started = time.monotonic()
    strike()
    thread.join(60)
    took_s = time.monotonic() - started
    assert len(samples) == 1
    assert samples[0].chunk_ns, "it was struck before it streamed"
    return samples[0], took_s


def _stop_and_look(engine: Engine, port: int) -> None:
    engine.stop()
    assert leftovers() == []
    assert port_owners(port) == set()


def test_engine_that_hangs_and_is_then_killed_is_told_apart(booter: Booter, changed: Change) -> None:
    engine = booter.boot(changed("cpu-initial"))
    process = _process(engine)

    halted = _engine_side(engine)
    for part in halted:
        part.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    patient = Patient(base_url=engine.target.base_url, model=engine.target.model, timeout_s=3.0)
    found = examine(patient).diagnosis
    took_s = time.monotonic() - started
    for part in halted:
        part.send_signal(signal.SIGCONT)
    assert found.category is Category.ENGINE_STALLED, found.paragraph()
    assert "although /health" in found.cause
    assert found.evidence
    assert "restart" in found.remedy
    assert took_s < 3.0 + FAILS_WITHIN_S

    sample, took_s = _break_in_midstream(engine, _core(engine).kill)
    # The API server says it as an event, unless it has gone down itself by then.
    assert sample.outcome in SEEN_OF_A_DEAD_ENGINE
    assert SEEN_OF_A_DEAD_ENGINE[sample.outcome] in (sample.detail or "")
    assert "log" in (remedy_for(sample.outcome, sample.remedy) or "")
    assert took_s < FAILS_WITHIN_S

    _until(lambda: process.look() is not None, 30)
    state = ProcessState(exit_code=process.look(), engine_alive=False)
    cause = classify_runtime(process.log_text(), state)
    assert cause is not None
    assert cause.category is Category.ENGINE_DIED, cause.paragraph()
    assert "engine" in cause.evidence.lower()
    assert "dmesg" in cause.remedy
    _stop_and_look(engine, process.port)


def test_api_server_that_is_killed_leaves_no_engine_behind(booter: Booter, changed: Change) -> None:
    engine = booter.boot(changed("cpu-initial"))
    process = _process(engine)
    sample, took_s = _break_in_midstream(engine, process.popen.kill)
    assert sample.outcome is Category.TRUNCATED_STREAM
    assert "the connection was" in (sample.detail or "")
    assert "server process" in (remedy_for(sample.outcome, sample.remedy) or "")
    assert took_s < FAILS_WITHIN_S

    _until(lambda: process.look() is not None, 5)
    assert process.look() == -signal.SIGKILL
    cause = classify_runtime(process.log_text(), ProcessState(exit_code=-signal.SIGKILL))
    assert cause is not None
    assert cause.category is Category.ENGINE_DIED, cause.paragraph()
    assert "SIGKILL" in cause.cause
    gone = examine(
        Patient(base_url=engine.target.base_url, model=engine.target.model, timeout_s=3.0)
    ).diagnosis
    assert gone.category is Category.SERVER_DOWN
    assert str(process.port) in gone.evidence
    assert "start the server" in gone.remedy
    _stop_and_look(engine, process.port)
