# SPDX-License-Identifier: Apache-2.0
"""Name why a server that had been serving stopped doing so: dead engine, dead API server, hung engine."""

import re
from dataclasses import dataclass

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.logtext import read_lines
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

# vLLM's statistics line: something waits or runs, and nothing comes out.
_STATS = re.compile(
    r"Avg generation throughput: (?P<rate>[\d.]+) tokens/s, Running: (?P<running>\d+) reqs.*?"
    r"Waiting: (?P<waiting>\d+) reqs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """What is known about the server's processes.

    ``exit_code`` is the API server's as ``Popen.returncode`` gives it, ``None`` while it lives;
    ``engine_alive`` is ``None`` where nobody looked.
    """

    exit_code: int | None = None
    engine_alive: bool | None = None

    @property
    def alive(self) -> bool:
        """Tell whether the API server lives."""
        return self.exit_code is None


def classify_runtime(
    log_text: str, state: ProcessState, *, request_timed_out: bool = False
) -> Diagnosis | None:
    """Return why a serving server no longer answers, or ``None`` where log and processes show nothing wrong.

    ``log_text`` is the whole log or its tail. ``request_timed_out``: a request got no token in its time; with
    everything alive that means a stalled engine, whatever ``/health`` says.
    """
    served = log_text if "Application startup complete" in log_text else _SERVED + log_text
    logged = classify_boot(served, exit_code=state.exit_code, alive=state.alive)
    if logged is not None:
        return logged
    if state.engine_alive is False:
        return Diagnosis(
            category=Category.ENGINE_DIED,
            cause="the engine process is gone, and it logged no reason: it was killed",
            evidence=f"no engine process; last line of the log: {_last(log_text)}",
            remedy="look for the kernel's out-of-memory killer (dmesg); restart the server, its API "
            "cannot recover",
        )
    if request_timed_out or _stalled(log_text):
        return _stall(log_text)
    return None


# A tail without its beginning is read as one of a server that had come up.
_SERVED = "INFO:     Application startup complete.\n"


def _stalled(log_text: str) -> bool:
    last = [found for found in map(_STATS.search, log_text.splitlines()) if found][-2:]
    return len(last) == 2 and all(
        float(found["rate"]) == 0 and int(found["running"]) + int(found["waiting"]) > 0 for found in last
    )


def _stall(log_text: str) -> Diagnosis:
    found = [match for match in map(_STATS.search, log_text.splitlines()) if match]
    seen = found[-1][0] if found else f"last line of the log: {_last(log_text)}"
    return Diagnosis(
        category=Category.ENGINE_STALLED,
        cause="server and engine are alive, but requests get no token in time",
        evidence=redact(seen),
        remedy="see what the engine does (py-spy dump --pid of VLLM::EngineCore) and restart it; "
        "/health does not "
        "notice this. If it is merely overloaded, send less at once or allow more time",
        figures={"running": int(found[-1]["running"]), "waiting": int(found[-1]["waiting"])} if found else {},
    )


def _last(log_text: str) -> str:
    lines = read_lines(log_text)
    return redact(lines[-1].text.strip()) if lines else "(empty)"
