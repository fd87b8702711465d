# SPDX-License-Identifier: Apache-2.0
"""Attach to a server that someone else runs: check that it can be measured at all, never stop it."""

import os

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.base_url import check_base_url
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import TargetUnusable
from vllm_perf.engine.http import Answer, ask
from vllm_perf.engine.proof import read_cache_config
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.target import Target

TIMEOUT_S = 10.0


def attach(spec: EngineSpec, base_url: str, *, key: str | None) -> Engine:
    """Return the server at ``base_url`` as an engine, after it has served one token.

    Raises:
        TargetUnusable: nobody listens, the key or URL is wrong, the model is not served, no token comes.
    """
    wrong = check_base_url(base_url)
    if wrong is not None and wrong.category is Category.BASE_URL_INVALID:
        raise _unusable(base_url, wrong)
    models = ask(f"{base_url}/models", key=key, timeout_s=TIMEOUT_S)
    data = models.json()
    served = (
        [item for item in data.get("data", []) if isinstance(item, dict)] if isinstance(data, dict) else []
    )
    names = [str(item.get("id")) for item in served]
    if not models.ok and models.status not in (404, 405):  # a gateway may not list its models
        raise _unusable(base_url, _explain(models, f"{base_url}/models", key, spec.model))
    body = {
        "model": spec.model,
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 1,
        "temperature": 0,
    }
    url = f"{base_url}/chat/completions"
    first = ask(url, payload=body, key=key, timeout_s=TIMEOUT_S)
    answer = first.json()
    if not first.ok or not isinstance(answer, dict) or not answer.get("choices"):
        raise _unusable(base_url, _explain(first, url, key, spec.model, names))
    limit = next((item.get("max_model_len") for item in served if item.get("id") == spec.model), None)
    target = Target(base_url=base_url, model=spec.model, api_key=key, name=spec.name)
    engine = describe(spec, target)
    engine.max_model_len = limit if isinstance(limit, int) else None
    return engine


def describe(spec: EngineSpec, target: Target) -> Engine:
    """Return a server that answers as an engine, with what it says of itself: its cache and its version."""
    root = target.base_url.removesuffix("/v1")
    labels = read_cache_config(ask(f"{root}/metrics", timeout_s=TIMEOUT_S).body.decode("utf-8", "replace"))
    version = ask(f"{root}/version", timeout_s=TIMEOUT_S).json()
    return Engine(
        spec=spec,
        target=target,
        facts={"prefix_caching": labels["enable_prefix_caching"] == "True"}
        if "enable_prefix_caching" in labels
        else {},
        vllm_version=str(version.get("version", "")) if isinstance(version, dict) else "",
    )


def _explain(
    answer: Answer, url: str, key: str | None, model: str, served: list[str] | None = None
) -> Diagnosis:
    if answer.error is not None:
        return classify_exception(answer.error, url=url, env=dict(os.environ), key=key)
    return classify_response(
        answer.status or 0,
        dict(answer.headers),
        answer.body,
        url=url,
        key_sent=key is not None,
        model=model,
        served_models=served or (),
        hints=Hints(env=dict(os.environ), secrets=(key,) if key else ()),
    )


def _unusable(base_url: str, diagnosis: Diagnosis) -> TargetUnusable:
    return TargetUnusable(f"the server at {redact(base_url)} cannot be measured", diagnosis)
