# SPDX-License-Identifier: Apache-2.0
"""Put together what a number was measured on, with and for, from what the engine and the workload say."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vllm_perf.history.environment import Environment, Hardware, Scalar, Software, Workload
from vllm_perf.history.git import Suite
from vllm_perf.history.hardware import probe_hardware
from vllm_perf.history.versions import Versions
from vllm_perf.spec.client import DEFAULT_CLIENT
from vllm_perf.spec.protocol import MEASUREMENT_PROTOCOL
from vllm_perf.spec.workload import WorkloadSpec

__all__ = ["EngineIdentity", "collect", "local_revision", "portable", "probe_hardware"]

SECRET = re.compile(r"(^|[-_])(api[-_]?key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
# Differ on every boot and say nothing about speed.
MOMENTARY = frozenset({"port", "host", "uds", "log-file", "api-key", "hf-token"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """What ran: the server's versions and the arguments in effect.

    ``versions.vllm_version`` must be the server's own answer (``/version``) where there is one: the
    package beside us need not be the one that serves.
    """

    model: str
    versions: Versions = field(default_factory=Versions)
    args: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    quantization: str | None = None


def collect(
    *,
    engine: EngineIdentity,
    workload: WorkloadSpec,
    prompt_set_hash: str,
    hardware: Hardware,
    suite: Suite,
    client: str = DEFAULT_CLIENT,
) -> Environment:
    """Return the environment of one (engine, workload) in its three parts; ``client`` sent the load."""
    return Environment(
        hardware=hardware,
        software=_software(engine, suite),
        workload=_workload(engine, workload, prompt_set_hash, client),
    )


def _software(engine: EngineIdentity, suite: Suite) -> Software:
    versions = engine.versions
    return Software(
        vllm_version=versions.vllm_version,
        vllm_commit=versions.vllm_commit,
        torch_version=versions.torch_version,
        cuda_version=versions.cuda_version,
        python_version=versions.python_version,
        engine_args={name: portable(value) for name, value in sorted(engine.args.items()) if _kept(name)},
        engine_env={name: str(portable(value)) for name, value in sorted(engine.env.items()) if _kept(name)},
        suite_commit=suite.commit,
        suite_branch=suite.branch,
        suite_dirty=suite.dirty,
        suite_note=suite.note,
    )


def _workload(engine: EngineIdentity, spec: WorkloadSpec, prompt_set_hash: str, client: str) -> Workload:
    arrival, prompt = spec.arrival, spec.prompt
    return Workload(
        workload=spec.name,
        model=str(portable(engine.model)),
        revision=engine.revision or local_revision(Path(engine.model)),
        quantization=engine.quantization,
        prompt_set_hash=prompt_set_hash,
        seed=spec.seed,
        endpoint=spec.endpoint,
        arrival=arrival.kind,
        concurrency=arrival.concurrency if arrival.kind == "closed" else None,
        rate_per_s=arrival.rate_per_s,
        requests=None if spec.duration_s else spec.requests,
        prompt_tokens=prompt.shared_tokens + prompt.unique_tokens or None,
        output_tokens=spec.output_tokens,
        protocol=MEASUREMENT_PROTOCOL,
        client=client,
    )


def portable(value: Scalar) -> Scalar:
    """Return a path without its directory: where a model or template lies is not what it is."""
    if isinstance(value, str) and value.startswith("/"):
        return Path(value).name
    return value


def local_revision(model: Path) -> str | None:
    """Return a revision for a model in a directory: a hash of its ``config.json``."""
    config = model / "config.json"
    if not config.is_file():
        return None
    return f"config-{hashlib.sha256(config.read_bytes()).hexdigest()[:12]}"


def _kept(name: str) -> bool:
    return name not in MOMENTARY and not SECRET.search(name)
