# SPDX-License-Identifier: Apache-2.0
"""Name why a vLLM server did not come up: the first root cause in its log, not the last line."""

import signal
from collections.abc import Sequence

from vllm_perf.diagnosis.boot_context import BootContext, read_context
from vllm_perf.diagnosis.boot_state import BootState, read_state
from vllm_perf.diagnosis.errortext import by_process, error_lines, first_exceptions
from vllm_perf.diagnosis.logtext import Line, read_lines
from vllm_perf.diagnosis.match import Hit, find_root
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.signatures.signature import Figures, fill
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

# Ends that somebody asked for: a clean exit, SIGTERM and SIGINT, as Python and as a shell report them.
_ASKED_ENDS = (0, -signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT)
_MEMORY = (
    Category.KV_ZERO,
    Category.KV_TOO_SMALL_FOR_MAX_LEN,
    Category.OOM_WEIGHTS,
    Category.OOM_RUNTIME,
    Category.OOM_SAMPLER_WARMUP,
)
_TAIL_LINES = 5


def classify_boot(
    log_text: str,
    *,
    exit_code: int | None,
    argv: Sequence[str] = (),
    elapsed_s: float | None = None,
    alive: bool = False,
    vllm_version: str | None = None,
) -> Diagnosis | None:
    """Return why a server failed to boot or died, or ``None`` where nothing is wrong.

    ``exit_code`` as ``Popen.returncode`` gives it (negative for a signal), ``None`` where it is not known or
    the process lives; ``alive`` says which. ``elapsed_s``: how long it has been waited for in vain; ``None``
    while there is still time. ``argv`` and ``vllm_version`` make the remedy exact.
    """
    lines = read_lines(log_text)
    state = read_state(lines)
    if _is_healthy(state, exit_code=exit_code, alive=alive, waited=elapsed_s is not None):
        return None
    context = read_context(
        lines, log_text=log_text, argv=argv, exit_code=exit_code, vllm_version=vllm_version
    )
    errors = error_lines(_before_stop(lines, state))
    died = exit_code is not None or state.fatal
    root = find_root(by_process(errors), lines, died=died) if _may_blame(state, alive=alive) else None
    if root is not None:
        return _named(root, context, lines)
    if alive or (exit_code is None and not errors and state.waiting_at is not None):
        return _hung(state, elapsed_s)
    return _unnamed(errors, lines, state, exit_code)


def _is_healthy(state: BootState, *, exit_code: int | None, alive: bool, waited: bool) -> bool:
    if state.serving_at is None:
        return alive and not state.fatal and not waited
    if state.fatal:
        return False
    return state.stopped_on_request or exit_code is None or exit_code in _ASKED_ENDS


def _may_blame(state: BootState, *, alive: bool) -> bool:
    # Errors of a living process that said nothing fatal are its own business.
    return not alive or state.fatal


def _before_stop(lines: Sequence[Line], state: BootState) -> Sequence[Line]:
    """Leave out what came after a stop that was asked for, and requests' errors before a later death."""
    start, end = 0, None
    if state.stopped_on_request:
        end = state.stop_asked_at
    if state.serving_at is not None and state.fatal:
        start = state.serving_at
    return [line for line in lines if line.number > start and (end is None or line.number < end)]


def _named(root: Hit, context: BootContext, lines: Sequence[Line]) -> Diagnosis:
    signature = root.signature
    figures = signature.figures(root.found, context)
    category = signature.category
    cause = fill(signature.cause, figures, context)
    remedy = fill(signature.remedy, figures, context)
    if category in _MEMORY and context.prefix_caching:
        remedy += (
            "; prefix caching is on and may tighten memory: compare with --no-enable-prefix-caching and a "
            "lower --max-num-seqs before blaming it"
        )
    shown = {name: value for name, value in figures.items() if name != "choices"}
    return _diagnosis(category, cause, _evidence(lines, root.number, root.end), remedy, shown)


def _hung(state: BootState, elapsed_s: float | None) -> Diagnosis:
    waited = f" within {elapsed_s:.0f} s" if elapsed_s is not None else ""
    stuck = "; the API server waits for an engine process that never reports" if state.waiting_at else ""
    last = f"line {state.last.number}: {state.last.text.strip()}" if state.last else "the log is empty"
    return _diagnosis(
        Category.BOOT_TIMEOUT,
        f"the server was alive but not ready{waited}{stuck}",
        f"last line of the log: {last}",
        "look at the engine process (py-spy dump --pid), at GPU and network between ranks, and at slow "
        "downloads "
        "or compilation; allow more time only if the log still moves",
        {} if elapsed_s is None else {"elapsed_s": elapsed_s},
    )


def _unnamed(
    errors: Sequence[Line], lines: Sequence[Line], state: BootState, exit_code: int | None
) -> Diagnosis:
    exceptions = [
        line for line in first_exceptions(errors) if state.gone_at is None or line.number < state.gone_at
    ]
    end = _end_of(exit_code)
    if exceptions:
        first = exceptions[0]
        return _diagnosis(
            Category.UNKNOWN,
            f"the server failed with an error that is none of the known ones{end}",
            _evidence(lines, first.number),
            "read the log from that line on; report it, so that it can be named next time",
            _exit_figures(exit_code),
        )
    if exit_code is not None or state.fatal:
        return _diagnosis(
            Category.ENGINE_DIED,
            f"the server or its engine died without a Python error{end}",
            _evidence(lines, state.fatal_at) if state.fatal_at else f"last lines of the log: {_tail(lines)}",
            _without_error_remedy(exit_code, vanished=state.gone_at is not None),
            _exit_figures(exit_code),
        )
    return _diagnosis(
        Category.UNKNOWN,
        "the log ends before the server was ready, and shows no error",
        f"last lines of the log: {_tail(lines)}",
        "check whether the process still lives; if it was killed, look at dmesg and the exit code",
        {},
    )


def _without_error_remedy(exit_code: int | None, *, vanished: bool) -> str:
    if vanished or exit_code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "it was killed: look for the kernel's out-of-memory killer (dmesg) and the container's limits"
    if exit_code in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, 139, 134, 135):
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


def _exit_figures(exit_code: int | None) -> Figures:
    return {} if exit_code is None else {"exit_code": exit_code}


def _evidence(lines: Sequence[Line], number: int, end: int | None = None) -> str:
    """Return what the process of line ``number`` wrote from there to line ``end``, with its place."""
    first = next(line for line in lines if line.number == number)
    last = number if end is None else end
    said = [
        line.text.strip() for line in lines if number <= line.number <= last and line.process == first.process
    ]
    who = f"{first.process}, " if first.process else ""
    return f"{who}line {number}: {' '.join(said)}"


def _tail(lines: Sequence[Line]) -> str:
    return " | ".join(line.text.strip() for line in lines[-_TAIL_LINES:]) or "(empty)"


def _diagnosis(category: Category, cause: str, evidence: str, remedy: str, figures: Figures) -> Diagnosis:
    clean = {name: redact(value) if isinstance(value, str) else value for name, value in figures.items()}
    return Diagnosis(
        category=category,
        cause=redact(cause),
        evidence=redact(_shortened(evidence)),
        remedy=redact(remedy),
        figures=clean,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 600 else text[:600] + "…"
