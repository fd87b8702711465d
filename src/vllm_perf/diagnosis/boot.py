# SPDX-License-Identifier: Apache-2.0
"""Name why a vLLM server did not come up: the first root cause in its log, not the last line."""

import signal
from collections.abc import Sequence
from dataclasses import replace

from vllm_perf.diagnosis.boot_context import BootContext, read_context
from vllm_perf.diagnosis.boot_state import BootState, read_state
from vllm_perf.diagnosis.boot_unnamed import SIGNALLED, hung, interrupted, unnamed
from vllm_perf.diagnosis.errortext import by_process, error_lines
from vllm_perf.diagnosis.evidence import quote, shortened
from vllm_perf.diagnosis.logtext import Line, read_lines
from vllm_perf.diagnosis.match import Hit, find_root
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.signatures.signature import fill
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
    errors = error_lines(_before_the_end(lines, state, exit_code))
    died = exit_code is not None or state.fatal
    root = find_root(by_process(errors), lines, died=died) if _may_blame(state, alive=alive) else None
    if root is not None:
        found = _named(root, context, lines)
    elif state.stopped_on_request:
        found = interrupted(lines, state)
    elif not state.fatal and (alive or (exit_code is None and not errors and state.waiting_at is not None)):
        found = hung(state, elapsed_s)
    else:
        found = unnamed(errors, lines, state, exit_code)
    return _redacted(found, context.secrets)


def _is_healthy(state: BootState, *, exit_code: int | None, alive: bool, waited: bool) -> bool:
    if state.serving_at is None:
        return alive and not state.fatal and not waited
    if state.fatal:
        return False
    return state.stopped_on_request or exit_code is None or exit_code in _ASKED_ENDS


def _may_blame(state: BootState, *, alive: bool) -> bool:
    # Errors of a living process that said nothing fatal are its own business.
    return not alive or state.fatal


def _before_the_end(lines: Sequence[Line], state: BootState, exit_code: int | None) -> Sequence[Line]:
    """Leave out what came after a stop that was asked for, and requests' errors before a later death."""
    if state.stopped_on_request:
        return [line for line in lines if line.number < (state.stop_asked_at or 0)]
    if state.serving_at is None or not (state.fatal or exit_code in SIGNALLED):
        return lines
    # Once it serves, the API server and its web server (which names no process) complain about requests; an
    # engine that dies says so itself.
    others = [
        line for line in lines if line.number > state.serving_at and line.process not in ("APIServer", "")
    ]
    return others if any(line.process for line in lines) else lines


def _named(root: Hit, context: BootContext, lines: Sequence[Line]) -> Diagnosis:
    signature = root.signature
    figures = signature.figures(root.found, context)
    category = signature.category_in(context)
    cause = fill(signature.cause, figures, context)
    remedy = fill(signature.remedy, figures, context)
    if category in _MEMORY and context.prefix_caching:
        remedy += (
            "; prefix caching is on and may tighten memory: compare with --no-enable-prefix-caching and a "
            "lower --max-num-seqs before blaming it"
        )
    shown = {name: value for name, value in figures.items() if name != "choices"}
    return Diagnosis(
        category=category,
        cause=cause,
        evidence=quote(lines, root.number, root.end),
        remedy=remedy,
        figures=shown,
    )


def _redacted(found: Diagnosis, secrets: Sequence[str]) -> Diagnosis:
    figures = {
        name: redact(value, secrets) if isinstance(value, str) else value
        for name, value in found.figures.items()
    }
    return replace(
        found,
        cause=redact(found.cause, secrets),
        evidence=redact(shortened(found.evidence), secrets),
        remedy=redact(found.remedy, secrets),
        figures=figures,
    )
