# SPDX-License-Identifier: Apache-2.0
"""What a number was measured on, with and for: hardware, software and workload, each with a stable key."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vllm_perf.spec.client import DEFAULT_CLIENT
from vllm_perf.spec.history import IdentitySpec

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The machine; no momentary clock, load or temperature is in it.

    One entry a GPU in use, in order; ``gpu_mig`` is ``off``, ``unsupported`` or the instance's profile.
    ``cpu_count`` is what this process may use (affinity and cgroup quota), not what the board has.
    ``nvml_note`` says why there is no GPU information, ``None`` where there is.
    """

    gpu_names: tuple[str, ...] = ()
    gpu_memory_mib: tuple[int, ...] = ()
    gpu_mig: tuple[str, ...] = ()
    gpu_power_cap_w: tuple[int | None, ...] = ()
    driver: str | None = None
    nvml_note: str | None = None
    cpu_model: str | None = None
    cpu_count: int | None = None
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What ran: the server's own versions (never those of the working directory) and the suite's commit."""

    vllm_version: str | None = None
    vllm_commit: str | None = None
    torch_version: str | None = None
    cuda_version: str | None = None
    python_version: str | None = None
    engine_args: dict[str, Scalar] = field(default_factory=dict)
    engine_env: dict[str, str] = field(default_factory=dict)
    suite_commit: str | None = None
    suite_branch: str | None = None
    suite_dirty: bool | None = None
    suite_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was asked of it: the model and the load, what sent that, and how it was measured.

    ``protocol`` is :data:`~vllm_perf.spec.protocol.MEASUREMENT_PROTOCOL`, 0 where a record does not say.
    """

    workload: str
    model: str
    revision: str | None = None
    quantization: str | None = None
    prompt_set_hash: str = ""
    seed: int | None = None
    endpoint: str = "chat"
    arrival: str = "closed"
    concurrency: int | None = None
    rate_per_s: float | None = None
    requests: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    protocol: int = 0
    client: str = DEFAULT_CLIENT


@dataclass(frozen=True, kw_only=True)  # no slots: the keys are cached
class Environment:
    """The three parts together; keys are equal exactly when the parts are."""

    hardware: Hardware
    software: Software
    workload: Workload

    @cached_property
    def hardware_key(self) -> str:
        """Return the key of the machine."""
        return stable_hash(plain(self.hardware))

    @cached_property
    def software_key(self) -> str:
        """Return the key of what ran."""
        return stable_hash(plain(self.software))

    @cached_property
    def workload_key(self) -> str:
        """Return the key of what was asked."""
        return stable_hash(plain(self.workload))

    @cached_property
    def key(self) -> str:
        """Return the key of all three parts."""
        return stable_hash([self.hardware_key, self.software_key, self.workload_key])


def plain(part: Hardware | Software | Workload) -> dict[str, Any]:
    """Return a part's fields (``dataclasses.asdict`` copies every value and is ten times slower)."""
    return {name: getattr(part, name) for name in part.__slots__}


def stable_hash(value: Any) -> str:
    """Return 16 hex digits that depend on ``value`` alone: not on key order, process or machine."""
    text = json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(value: Any) -> Any:
    """Write 5.0 as 5: the two are equal, so their keys must be."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _canonical(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def identity(environment: Environment, policy: IdentitySpec) -> dict[str, Any]:
    """Return the fields that must match, as ``part.field`` to value."""
    return {
        f"{part}.{name}": getattr(getattr(environment, part), name)
        for part in ("hardware", "software", "workload")
        for name in policy.fields(part)
    }


def identity_key(environment: Environment, policy: IdentitySpec) -> str:
    """Return a hash of the fields that must match."""
    return stable_hash(identity(environment, policy))


def differing(a: Environment, b: Environment) -> dict[str, tuple[Any, Any]]:
    """Return every field that differs as ``part.field`` (``part.field.key`` in a mapping) to (a's, b's)."""
    left, right = dict(_flat(asdict_parts(a))), dict(_flat(asdict_parts(b)))
    parts = ("hardware", "software", "workload")
    names = sorted(dict.fromkeys([*left, *right]), key=lambda name: parts.index(name.partition(".")[0]))
    return {name: (left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)}


def diff(a: Environment, b: Environment) -> list[str]:
    """Return one line a difference: ``software.vllm_version: 0.32.0 → 0.33.0``."""
    return [f"{name}: {_shown(old)} → {_shown(new)}" for name, (old, new) in differing(a, b).items()]


def identity_diff(a: Environment, b: Environment, policy: IdentitySpec) -> list[str]:
    """Return the differences that forbid a comparison; empty when there is none."""
    left, right = identity(a, policy), identity(b, policy)
    return [
        f"{name}: {_shown(left[name])} → {_shown(right[name])}" for name in left if left[name] != right[name]
    ]


def asdict_parts(environment: Environment) -> dict[str, Any]:
    """Return the parts as plain data."""
    return {
        "hardware": plain(environment.hardware),
        "software": plain(environment.software),
        "workload": plain(environment.workload),
    }


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


def _shown(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, tuple):
        return ", ".join(_shown(item) for item in value) or "(none)"
    return str(value)
