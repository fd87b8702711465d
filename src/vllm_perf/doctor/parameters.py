# SPDX-License-Identifier: Apache-2.0
"""The doctor's third question: does the model answer, with these parameters, and in time?"""

import http.client

from vllm_perf.diagnosis.nearest import nearest_name
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.ask import ask
from vllm_perf.doctor.patient import Patient
from vllm_perf.doctor.smoke import Smoke, one_token, stream_one_token
from vllm_perf.spec.category import Category


def model_is_served(patient: Patient) -> Diagnosis | None:
    """The model id is among those listed; a channel may serve more than it lists, vLLM does not."""
    if not patient.served or patient.model in patient.served:
        return None
    nearest = nearest_name(patient.model, patient.served, cutoff=0.4)
    listed = ", ".join(patient.served[:10])
    if not patient.is_vllm:
        return None
    return Diagnosis(
        category=Category.MODEL_NOT_FOUND,
        cause=f"the server does not serve a model called '{patient.model}'",
        evidence=f"{patient.api}/models lists: {listed}",
        remedy=f"ask for '{nearest}'" if nearest else f"ask for one of: {listed}",
        figures={"model": patient.model, **({"nearest_model": nearest} if nearest else {})},
    )


def one_token_comes(patient: Patient) -> Diagnosis | None:
    """Stream one token through the openai SDK, as the user's own client would."""
    outcome = stream_one_token(patient)
    if isinstance(outcome, Diagnosis):
        return _stalled(patient, outcome) if outcome.category is Category.TIMEOUT else outcome
    if not outcome.ended:
        return _unfinished(patient, outcome)
    patient.passed.append(
        f"parameters: {patient.model} streamed a token in {outcome.first_chunk_ms:.0f} ms, "
        f"finish_reason {outcome.finish_reason}"
    )
    return None


def _stalled(patient: Patient, timeout: Diagnosis) -> Diagnosis:
    """No token in time although the API lives: the engine hangs, and ``/health`` does not notice."""
    if not patient.is_vllm or patient.health_status != 200:
        return timeout
    return Diagnosis(
        category=Category.ENGINE_STALLED,
        cause=f"one token did not come within {patient.timeout_s:g} s, although /health and /v1/models "
        f"answer",
        evidence=timeout.evidence,
        remedy="the engine hangs or is overloaded: look at its log and at vllm:num_requests_waiting in "
        "/metrics, "
        "then restart it",
        figures={"timeout_s": patient.timeout_s},
    )


def _asked_without_a_stream(patient: Patient) -> Diagnosis | None:
    """Ask again in one piece: an SDK swallows an error object that came where a stream was expected."""
    url = f"{patient.api}/chat/completions"
    try:
        reply = ask(
            url, key=patient.key, data=one_token(patient), env=patient.env, timeout_s=patient.timeout_s
        )
    except (OSError, http.client.HTTPException) as error:
        return patient.explain(error, url)
    found = patient.judge(reply, url)
    return None if found.category in (Category.OK, Category.UNKNOWN) else found


def _unfinished(patient: Patient, outcome: Smoke) -> Diagnosis:
    if outcome.chunks == 0:
        said = _asked_without_a_stream(patient)
        if said is not None:
            return said
        category, what = Category.NO_TOKEN, "the stream ended without any chunk of an answer"
    else:
        category, what = Category.NO_FINISH_REASON, "the stream ended without a finish_reason"
    return Diagnosis(
        category=category,
        cause=what,
        evidence=f"HTTP 200 and {outcome.chunks} chunks from {patient.api}/chat/completions",
        remedy="read the log of server or gateway: generation failed after it had answered 200",
        figures={"chunks": outcome.chunks},
    )
