# SPDX-License-Identifier: Apache-2.0
"""One streamed token through the openai SDK, with everything that can go wrong named."""

import time
from dataclasses import dataclass
from typing import Any

import openai

from vllm_perf.diagnosis.envelope import read_object
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.patient import Patient
from vllm_perf.spec.category import Category

# Enough for one visible token of most models, little enough to cost nothing.
_MAX_TOKENS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """What one streamed request brought: chunks with choices, time to the first of them, how it ended."""

    chunks: int
    first_chunk_ms: float
    finish_reason: str | None

    @property
    def ended(self) -> bool:
        """Tell whether the answer came to its proper end."""
        return self.chunks > 0 and self.finish_reason is not None


def one_token(patient: Patient) -> dict[str, Any]:
    """Return the request's body."""
    messages = [{"role": "user", "content": "Say one word."}]
    return {"model": patient.model, "messages": messages, "max_tokens": _MAX_TOKENS, "temperature": 0}


def stream_one_token(patient: Patient) -> Smoke | Diagnosis:
    """Send the request and read its stream to the end; return what came, or what went wrong."""
    url = f"{patient.api}/chat/completions"
    seen = _Seen()
    try:
        with openai.OpenAI(
            base_url=patient.api,
            api_key="EMPTY" if patient.key is None else patient.key,
            max_retries=0,
            timeout=patient.timeout_s,
        ) as client:
            return _read(client, patient, url, seen)
    except Exception as error:  # noqa: BLE001 - an SDK may raise anything; what it is, is the question
        found = patient.explain(error, url, after_chunks=seen.chunks)
        return (
            found if found.category is not Category.MODEL_NOT_FOUND else _with_models(patient, error, found)
        )


@dataclass(slots=True)
class _Seen:
    """How many events had come when a stream broke."""

    chunks: int = 0


def _read(client: openai.OpenAI, patient: Patient, url: str, seen: _Seen) -> Smoke | Diagnosis:
    started_ns = time.perf_counter_ns()
    first_ns: int | None = None
    chunks, finish_reason = 0, None
    for chunk in client.chat.completions.create(**one_token(patient), stream=True):
        seen.chunks += 1
        choices = getattr(chunk, "choices", None)
        if choices is None:
            return _without_choices(chunk, patient, url)
        if choices:
            chunks += 1
            first_ns = first_ns or time.perf_counter_ns()
            finish_reason = choices[0].finish_reason or finish_reason
    first_chunk_ms = ((first_ns or time.perf_counter_ns()) - started_ns) / 1e6
    return Smoke(chunks=chunks, first_chunk_ms=first_chunk_ms, finish_reason=finish_reason)


def _without_choices(chunk: Any, patient: Patient, url: str) -> Diagnosis:
    """Name an event without choices; the SDK hands on JSON null and flat errors as if they were chunks."""
    data = None if chunk is None else chunk.model_dump()
    envelope = read_object({key: value for key, value in data.items() if value is not None} if data else None)
    category = Category.NULL_EVENT if chunk is None else Category.IN_BAND_ERROR
    what = "JSON null" if chunk is None else "an error"
    return Diagnosis(
        category=category,
        cause=f"the server sent {what} as an event of a stream that had begun with 200",
        evidence=redact(f"event from {url}: {envelope.line()}", patient.secrets),
        remedy="read the log of server or gateway; clients show this as a 'NoneType' error",
    )


def _with_models(patient: Patient, error: Exception, found: Diagnosis) -> Diagnosis:
    listed = ", ".join(patient.served[:10])
    remedy = f"{found.remedy} (listed: {listed})" if listed and isinstance(error, Exception) else found.remedy
    return Diagnosis(
        category=found.category,
        cause=f"the server does not serve a model called '{patient.model}'",
        evidence=found.evidence,
        remedy=remedy,
        figures=found.figures,
    )
