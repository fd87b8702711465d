# SPDX-License-Identifier: Apache-2.0
"""Turn a channel of the file into somewhere requests can go: the key comes from the environment."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vllm_perf.channel.errors import ChannelUnusable
from vllm_perf.channel.line import Broken, Line
from vllm_perf.channel.reading import model_ids
from vllm_perf.diagnosis.keys import key_problem
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.address import parse_address
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category
from vllm_perf.spec.channel import ChannelSpec, find_channel
from vllm_perf.spec.target import Target

TIMEOUT_S = 10.0


def channel_target(name: str, file: Path, env: Mapping[str, str] | None = None) -> tuple[Target, ChannelSpec]:
    """Return where the channel ``name`` of ``file`` is, with its key, and what the file says of it.

    A channel without a model asks the server for its first one.

    Raises:
        SpecError: the file or its entry is wrong, or the key's variable is not set.
        ChannelUnusable: the server had to be asked for its model, and did not say.
    """
    spec = find_channel(file, name)
    target = target_of(spec, os.environ if env is None else env)
    return (target if target.model else replace(target, model=first_model(target))), spec


def target_of(spec: ChannelSpec, env: Mapping[str, str], *, needs_key: bool = True) -> Target:
    """Return the channel's target without asking anyone; a dry run does not need the key.

    Raises:
        SpecError: the base URL is malformed, the key's variable is not set, or holds what is no key.
    """
    parse_address(spec.base_url)
    return Target(
        base_url=spec.base_url.rstrip("/"),
        model=spec.model,
        api_key=_key(spec, env) if needs_key else None,
        name=spec.name,
        ca_file=spec.ca_file,
        proxy=spec.proxy,
    )


def first_model(target: Target) -> str:
    """Return the first id of ``/v1/models``.

    Raises:
        ChannelUnusable: no answer, or none that lists a model.
    """
    url = f"{target.base_url}/models"
    try:
        with Line(target, TIMEOUT_S) as line:
            answer = line.get(url)
            ids = model_ids(answer)
            if ids:
                return ids[0]
            if not answer.ok:
                found = line.explain(answer.status, answer.headers, answer.body, url)
                raise ChannelUnusable(target.name, found)
    except Broken as error:
        raise ChannelUnusable(target.name, error.diagnosis) from error
    raise ChannelUnusable(
        target.name,
        Diagnosis(
            category=Category.MODEL_NOT_FOUND,
            cause="the channel's entry names no model and the server lists none",
            evidence=f"HTTP {answer.status} from {url} without any model id",
            remedy='put the model\'s id into the channels file: model = "..."',
        ),
    )


def _key(spec: ChannelSpec, env: Mapping[str, str]) -> str | None:
    if spec.key_env is None:
        return None
    key = env.get(spec.key_env)
    if not key:
        raise SpecError(
            f"channel '{spec.name}': the variable {spec.key_env} that holds its key is not set;"
            f" export {spec.key_env}=… (the key stands in no file)"
        )
    problem = key_problem(key)
    if problem:
        raise SpecError(f"channel '{spec.name}': what {spec.key_env} holds is no key: {problem}")
    return key
