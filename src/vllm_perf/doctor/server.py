# SPDX-License-Identifier: Apache-2.0
"""Examine a server: alive, then key and URL, then parameters; stop at the first thing wrong."""

from collections.abc import Callable
from dataclasses import dataclass

from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor import access, alive, parameters
from vllm_perf.doctor.patient import Patient
from vllm_perf.spec.category import Category

Question = Callable[[Patient], Diagnosis | None]

# The order of checks: most problems are in the first two groups.
QUESTIONS: tuple[Question, ...] = (
    alive.url_can_be_used,
    alive.something_answers,
    alive.engine_is_not_known_dead,
    access.proxies_can_be_used,
    access.no_proxy_before_loopback,
    access.key_can_be_sent,
    access.models_are_listed,
    parameters.model_is_served,
    parameters.one_token_comes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The finding, ``OK`` where nothing is wrong, and in ``passed`` what was found in order before it."""

    diagnosis: Diagnosis
    passed: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Tell whether nothing is wrong."""
        return self.diagnosis.category is Category.OK


def examine(patient: Patient) -> Checkup:
    """Ask every question in order until one finds something wrong."""
    for question in QUESTIONS:
        found = question(patient)
        if found is not None:
            return Checkup(diagnosis=found, passed=tuple(patient.passed))
    version = f"vLLM {patient.vllm_version}" if patient.vllm_version else "the server"
    length = f", max_model_len {patient.max_model_len}" if patient.max_model_len else ""
    healthy = Diagnosis(
        category=Category.OK,
        cause=f"nothing is wrong: {version} serves {patient.model}{length}",
        evidence="; ".join(patient.passed),
        remedy="nothing to do",
        figures={"max_model_len": patient.max_model_len} if patient.max_model_len else {},
    )
    return Checkup(diagnosis=healthy, passed=tuple(patient.passed))
