# SPDX-License-Identifier: Apache-2.0
"""Say what can be said of a failed boot that no signature explains: a hang, a death, an unknown error."""

import signal
from collections.abc import Sequence

from vllm_perf.diagnosis.boot_state import BootState
from vllm_perf.diagnosis.errortext import first_exceptions
from vllm_perf.diagnosis.evidence import quote, tail
from vllm_perf.diagnosis.logtext import Line
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_CRASHED = tuple(
    code for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS) for code in (-number, 128 + number)
)
# Exit codes of a process that was ended from outside or crashed below Python.
SIGNALLED = (*_KILLED, *_CRASHED)


def hung(state: BootState, elapsed_s: float | None) -> Diagnosis:
    """Return the diagnosis of a server that lives and does not get ready."""
    waited = f" within {elapsed_s:.0f} s" if elapsed_s is not None else ""
    stuck = "; the API server waits for an engine process that never reports" if state.waiting_at else ""
    last = f"line {state.last.number}: {state.last.text.strip()}" if state.last else "(the log is empty)"
    return Diagnosis(
        category=Category.BOOT_TIMEOUT,
        cause=f"the server was alive but not ready{waited}{stuck}",
        evidence=f"last line of the log: {last}",
        remedy="look at the engine process (py-spy dump --pid), at the network between ranks, and at "
        "slow downloads "
        "or compilation; allow more time only if the log still moves",
        figures={} if elapsed_s is None else {"elapsed_s": elapsed_s},
    )


def interrupted(lines: Sequence[Line], state: BootState) -> Diagnosis:
    """Return the diagnosis of a boot that somebody broke off."""
    return Diagnosis(
        category=Category.CANCELLED,
        cause="the server was told to stop while it was booting",
        evidence=tail(lines) if state.stop_asked_at is None else quote(lines, state.stop_asked_at),
        remedy="start it again, and give it the time to boot",
    )


def unnamed(
    errors: Sequence[Line], lines: Sequence[Line], state: BootState, exit_code: int | None
) -> Diagnosis:
    """Return what is known of a server that failed in an unknown way; never a guess."""
    # What is raised after a process has vanished is only how the others noticed.
    exceptions = [
        line for line in first_exceptions(errors) if state.gone_at is None or line.number < state.gone_at
    ]
    if exceptions:
        return _unknown_error(lines, errors, exceptions[0], exit_code)
    if exit_code is not None or state.fatal:
        return _silent_death(lines, state, exit_code)
    return Diagnosis(
        category=Category.UNKNOWN,
        cause="the log ends before the server was ready, and shows no error",
        evidence=tail(lines),
        remedy="check whether the process still lives; if it was killed, look at dmesg and the exit code",
    )


def _unknown_error(
    lines: Sequence[Line], errors: Sequence[Line], first: Line, exit_code: int | None
) -> Diagnosis:
    return Diagnosis(
        category=Category.UNKNOWN,
        cause=f"the server failed with an error that is none of the known ones{_end_of(exit_code)}",
        evidence=f"{quote(lines, first.number)}; {tail(errors)}",
        remedy="read the log from that line on; report it, so that it can be named next time",
        figures={} if exit_code is None else {"exit_code": exit_code},
    )


def _silent_death(lines: Sequence[Line], state: BootState, exit_code: int | None) -> Diagnosis:
    return Diagnosis(
        category=Category.ENGINE_DIED,
        cause=f"the server or its engine died without a Python error{_end_of(exit_code)}",
        evidence=tail(lines) if state.fatal_at is None else quote(lines, state.fatal_at),
        remedy=_after_silent_death(exit_code, vanished=state.gone_at is not None),
        figures={} if exit_code is None else {"exit_code": exit_code},
    )


def _after_silent_death(exit_code: int | None, *, vanished: bool) -> str:
    if vanished or exit_code in _KILLED:
        return "it was killed: look for the kernel's out-of-memory killer (dmesg) and the container's limits"
    if exit_code in _CRASHED:
        return (
            "a native library crashed: check that vLLM, torch, driver and GPU belong together; look at dmesg"
        )
    return "look at dmesg and at the lines before the end; start it by hand with VLLM_LOGGING_LEVEL=DEBUG"


def _end_of(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in {member.value for member in signal.Signals}:
        return f" (killed by {signal.Signals(number).name})"
    return f" (exit code {exit_code})"
