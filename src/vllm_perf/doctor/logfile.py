# SPDX-License-Identifier: Apache-2.0
"""Read a boot log as the doctor does: what failed, or what runs that was not asked for."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.boot_checks import check_boot
from vllm_perf.diagnosis.boot_facts import BootFacts, read_boot_facts
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.server import Checkup
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category


def examine_log(path: Path, env: Mapping[str, str] | None = None) -> Checkup:
    """Return the first root cause in the log, else the first difference from what was asked, else ``OK``.

    ``env`` is the server's environment, where it is known.

    Raises:
        SpecError: the file cannot be read.
    """
    try:
        log_text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    failure = classify_boot(log_text, exit_code=None)
    if failure is not None:
        return Checkup(diagnosis=replace(failure, log_path=str(path)))
    facts = read_boot_facts(log_text)
    differences = check_boot(facts, env=env)
    if differences:
        return Checkup(diagnosis=replace(differences[0], log_path=str(path)), passed=("the server boots",))
    return Checkup(diagnosis=_healthy(facts), passed=("the server boots",))


def _healthy(facts: BootFacts) -> Diagnosis:
    shown = (
        ("attention backend", facts.attention_backend),
        ("quantization", facts.quantization_kernel or facts.quantization),
        ("KV cache tokens", facts.kv_cache_tokens),
        ("max_model_len", facts.max_model_len),
        ("engine init s", facts.engine_init_s),
    )
    seen = ", ".join(f"{name} {value}" for name, value in shown if value is not None)
    advice = "; ".join(facts.warnings)
    return Diagnosis(
        category=Category.OK,
        cause=f"the server boots (vLLM {facts.version or 'of unknown version'})",
        evidence=seen or "the log says that it serves",
        remedy=advice or "nothing to do",
        figures={name.replace(" ", "_"): value for name, value in shown if value is not None},
    )
