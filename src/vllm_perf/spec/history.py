# SPDX-License-Identifier: Apache-2.0
"""Which stored runs may be compared, and how many are kept, as data."""

from pathlib import Path

from pydantic import Field, model_validator

from vllm_perf.spec.base import SpecError, SpecModel, parse, read_toml

HARDWARE_FIELDS = (
    "gpu_names",
    "gpu_memory_mib",
    "gpu_mig",
    "gpu_power_cap_w",
    "driver",
    "nvml_note",
    "cpu_model",
    "cpu_count",
    "memory_gib",
)
SOFTWARE_FIELDS = (
    "vllm_version",
    "vllm_commit",
    "torch_version",
    "cuda_version",
    "python_version",
    "engine_args",
    "engine_env",
    "suite_commit",
    "suite_branch",
    "suite_dirty",
    "suite_note",
)
WORKLOAD_FIELDS = (
    "workload",
    "model",
    "revision",
    "quantization",
    "prompt_set_hash",
    "seed",
    "endpoint",
    "arrival",
    "concurrency",
    "rate_per_s",
    "requests",
    "prompt_tokens",
    "output_tokens",
    "protocol",
    "client",
)
PARTS = {"hardware": HARDWARE_FIELDS, "software": SOFTWARE_FIELDS, "workload": WORKLOAD_FIELDS}


class IdentitySpec(SpecModel):
    """Name the fields that must be equal before two runs are compared (``*``: all of that part).

    Every other field is the subject: it may differ, and what differs is listed beside the comparison.
    The default compares across vLLM versions and flags, never across machines, models or loads.
    """

    hardware: tuple[str, ...] = (
        "gpu_names",
        "gpu_memory_mib",
        "gpu_mig",
        "gpu_power_cap_w",
        "driver",
        "cpu_model",
        "cpu_count",
    )
    software: tuple[str, ...] = ()
    workload: tuple[str, ...] = ("*",)

    @model_validator(mode="after")
    def _every_field_exists(self) -> "IdentitySpec":
        for part, known in PARTS.items():
            for name in getattr(self, part):
                if name != "*" and name not in known:
                    raise ValueError(f"{part} has no field '{name}'; it has: {', '.join(known)}")
        return self

    def fields(self, part: str) -> tuple[str, ...]:
        """Return the identity fields of ``part``, ``*`` spelt out."""
        named: tuple[str, ...] = getattr(self, part)
        return PARTS[part] if "*" in named else named


class HistorySpec(SpecModel):
    """How the history is used.

    ``keep_good`` good runs a series survive pruning; ``partner_window`` good runs are searched for series
    that have vanished; ``mainline`` is the ref whose merge base a baseline is looked for on ("" guesses it).
    """

    identity: IdentitySpec = IdentitySpec()
    keep_good: int = Field(default=50, ge=1)
    partner_window: int = Field(default=10, ge=1)
    mainline: str = ""


def load_history_spec(path: Path | None) -> HistorySpec:
    """Read the policy from ``path``; ``None`` gives the defaults.

    Raises:
        SpecError: the file cannot be read, or names an unknown key or field.
    """
    if path is None:
        return HistorySpec()
    return parse(HistorySpec, read_toml(path), str(path))


__all__ = ["PARTS", "HistorySpec", "IdentitySpec", "SpecError", "load_history_spec"]
