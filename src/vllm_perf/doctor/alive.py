# SPDX-License-Identifier: Apache-2.0
"""The first of the doctor's questions: is anything alive there, and is it vLLM?"""

import http.client
from urllib.parse import urlsplit

from vllm_perf.diagnosis.base_url import check_base_url, server_root, with_scheme
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.ask import Reply, ask
from vllm_perf.doctor.patient import Patient
from vllm_perf.spec.category import Category

_PROBE_S = 5.0


def url_can_be_used(patient: Patient) -> Diagnosis | None:
    """Only a URL that no client could use stops here; a missing ``/v1`` waits until something answers."""
    wrong = check_base_url(patient.base_url)
    return wrong if wrong is not None and wrong.category is Category.BASE_URL_INVALID else None


def something_answers(patient: Patient) -> Diagnosis | None:
    """Ask for ``/version``; any answer shows that the server lives, vLLM's own that it is vLLM."""
    url = f"{server_root(patient.api)}/version"
    try:
        reply = ask(url, env=patient.env, timeout_s=min(_PROBE_S, patient.timeout_s))
    except (OSError, http.client.HTTPException) as error:
        # Named as the API that the user gave: whoever reads it never asked for /version.
        return _other_scheme(patient, url) or patient.explain(error, f"{patient.api}/models")
    _recognise(patient, reply)
    if reply.status in (301, 302, 307, 308, 400, 502, 503, 504):
        found = patient.judge(reply, f"{patient.api}/models")
        # Channels answer 400 or 404 to a path they do not know; only these say that the way is wrong.
        if found.category in (
            Category.SCHEME_MISMATCH,
            Category.UPSTREAM_DOWN_BEHIND_PROXY,
            Category.PROXY_INTERCEPT,
        ):
            return found
    patient.passed.append(
        f"alive: {url} answered {reply.status}"
        + (f", vLLM {patient.vllm_version}" if patient.is_vllm else "")
    )
    return None


def engine_is_not_known_dead(patient: Patient) -> Diagnosis | None:
    """Ask vLLM's ``/health``: 503 means that its engine is gone; 200 proves little, a hung engine has it."""
    if not patient.is_vllm:
        return None
    url = f"{server_root(patient.api)}/health"
    try:
        patient.health_status = ask(url, env=patient.env, timeout_s=min(_PROBE_S, patient.timeout_s)).status
    except (OSError, http.client.HTTPException) as error:
        return patient.explain(error, f"{patient.api}/models")
    if patient.health_status == 503:
        return Diagnosis(
            category=Category.ENGINE_DIED,
            cause="vLLM's API server answers, but says that its engine is dead",
            evidence=f"HTTP 503 from {url}",
            remedy="read the server's log (vllm-perf doctor --log FILE) for the cause, and restart it",
            figures={"status": 503},
        )
    return None


def _recognise(patient: Patient, reply: Reply) -> None:
    data = reply.json()
    version = data.get("version") if isinstance(data, dict) else None
    if reply.status == 200 and isinstance(version, str):
        patient.is_vllm, patient.vllm_version = True, version


def _other_scheme(patient: Patient, url: str) -> Diagnosis | None:
    """A TLS server drops plain http without a word: only asking in https tells it from a dead one."""
    if urlsplit(url).scheme != "http":
        return None
    secure = with_scheme(url, "https")
    try:
        ask(secure, env=patient.env, timeout_s=_PROBE_S)
    except (OSError, http.client.HTTPException) as error:
        if patient.explain(error, secure).category is not Category.TLS_TRUST:
            return None
    wanted = with_scheme(patient.api, "https")
    return Diagnosis(
        category=Category.SCHEME_MISMATCH,
        cause="plain http was spoken to a server that wants TLS",
        evidence=f"no answer from {url}, but {secure} speaks TLS",
        remedy=f"use {wanted} as the base URL",
        figures={"suggested_base_url": wanted},
    )
