# SPDX-License-Identifier: Apache-2.0
"""The doctor's second question: do the way, the key and the base URL fit together?"""

import http.client
from dataclasses import replace

from vllm_perf.diagnosis.base_url import check_base_url, host_and_port
from vllm_perf.diagnosis.keys import key_problem, key_remedy
from vllm_perf.diagnosis.proxies import find_problems, loopback_without_exclusion
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.ask import ask
from vllm_perf.doctor.patient import Patient
from vllm_perf.spec.category import Category

_UNLISTED = (Category.NOT_FOUND, Category.BAD_REQUEST, Category.UNKNOWN)


def proxies_can_be_used(patient: Patient) -> Diagnosis | None:
    """Proxy settings that make common clients fail when they are built."""
    problem = next(iter(find_problems(patient.env)), None)
    if problem is None:
        return None
    return Diagnosis(
        category=Category.PROXY_ENV_INVALID,
        cause=f"clients cannot use {problem.variable}: {problem.why}",
        evidence=f"{problem.variable} holds {problem.entry}; the server itself answers",
        remedy=f"correct or unset {problem.variable}",
        figures={"variable": problem.variable, "entry": problem.entry},
    )


def no_proxy_before_loopback(patient: Patient) -> Diagnosis | None:
    """A proxy variable that sends requests for this very machine elsewhere; the doctor goes around it."""
    proxy = loopback_without_exclusion(patient.api, patient.env)
    if proxy is None:
        return None
    address = patient.env[proxy.variable].strip()  # what is shown has its password taken out, and is no URL
    host, port = host_and_port(address if "://" in address else f"http://{address}")
    alive = bool(host) and patient.connect(host, port)
    category = Category.PROXY_INTERCEPT if alive else Category.LOCAL_PROXY_FAILED
    state = "which answers in the server's place" if alive else "where nothing listens"
    return Diagnosis(
        category=category,
        cause=f"{proxy.variable} sends clients' requests for this machine to {proxy.address}, {state}",
        evidence=f"{proxy.variable} is set, NO_PROXY does not cover it, and the server itself answers",
        remedy="set NO_PROXY=localhost,127.0.0.1,::1 or unset the variable",
        figures={"variable": proxy.variable},
    )


def key_can_be_sent(patient: Patient) -> Diagnosis | None:
    """The key's form: newline, whitespace, quotation marks."""
    problem = key_problem(patient.key)
    if problem is None:
        return None
    return Diagnosis(
        category=Category.KEY_MALFORMED,
        cause=problem,
        evidence=f"a key of {len(patient.key or '')} characters",
        remedy=key_remedy(patient.key),
    )


def models_are_listed(patient: Patient) -> Diagnosis | None:
    """Ask for the models with the key: 200 shows that key and URL fit together."""
    url = f"{patient.base_url.rstrip('/')}/models"
    try:
        reply = ask(url, key=patient.key, env=patient.env, timeout_s=patient.timeout_s)
        if reply.status == 200 and _remember(patient, reply.json()):
            # Whatever the form of the URL: it leads to the models, so it is right.
            patient.api = patient.base_url.rstrip("/")
            patient.passed.append(f"key and URL: {url} answered 200, {len(patient.served)} model(s)")
            return None
        wrong_form = check_base_url(patient.base_url)
        if wrong_form is not None:
            return _confirmed(patient, wrong_form)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return patient.explain(error, url)
    # Some channels serve chat but no list of models: for them only a clear word about the key ends it here.
    found = patient.judge(reply, url)
    if patient.is_vllm or found.category not in _UNLISTED:
        return found
    patient.passed.append(f"key and URL: {url} answered {reply.status}; no list of models there")
    return None


def _confirmed(patient: Patient, wrong: Diagnosis) -> Diagnosis:
    """Ask where the API ought to be: 200 or 401 there makes the finding certain."""
    url = f"{patient.api}/models"
    status = ask(url, key=patient.key, env=patient.env, timeout_s=patient.timeout_s).status
    certain = ", so that is where the API is" if status in (200, 401, 403) else ""
    return replace(wrong, evidence=f"{wrong.evidence}; {redact(url)} answered {status}{certain}")


def _remember(patient: Patient, data: object) -> bool:
    """Keep the served ids and the model's length; tell whether ``data`` is a list of models at all."""
    entries = data.get("data") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        return False
    models = [entry for entry in entries if isinstance(entry, dict)]
    patient.served = tuple(entry["id"] for entry in models if isinstance(entry.get("id"), str))
    length = next((entry.get("max_model_len") for entry in models if entry.get("id") == patient.model), None)
    patient.max_model_len = length if isinstance(length, int) else None
    return True
