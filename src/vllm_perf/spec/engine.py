# SPDX-License-Identifier: Apache-2.0
"""What an engine configuration is: a model, vLLM flags and environment, as data."""

from typing import Any, Literal

from pydantic import Field

from vllm_perf.spec.base import SpecModel

FlagValue = bool | int | float | str
Platform = Literal["cpu", "cuda", "golden", "any"]


class ModelShape(SpecModel):
    """Describe a model that is written on the fly: Hugging Face config plus a generated tokenizer.

    ``config`` goes into ``config.json`` as it stands; weights are random (``--load-format dummy``).
    """

    config: dict[str, Any]
    seed: int = 0


class Expectation(SpecModel):
    """What the booted engine must report about itself; ``None`` means "not checked".

    Each is compared with the boot log and ``vllm:cache_config_info``; a difference fails the fixture.
    """

    attention_backend: str | None = None
    quantization_kernel: str | None = None
    kv_cache_dtype: str | None = None
    prefix_caching: bool | None = None
    max_model_len: int | None = None


class EngineSpec(SpecModel):
    """One engine configuration after ``extends`` has been resolved.

    ``flags`` maps a vLLM flag without dashes to its value: ``true`` gives ``--flag``, ``false`` gives
    ``--no-flag``, anything else ``--flag value``. ``own_flags`` are those this rung itself added. On
    platform ``golden`` the golden engine is booted instead of vLLM, and the flags are its own.
    """

    name: str
    title: str = ""
    model: str
    served_model_name: str | None = None
    platform: Platform = "any"
    flags: dict[str, FlagValue] = Field(default_factory=dict)
    own_flags: dict[str, FlagValue] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    python: str | None = None
    boot_timeout_s: float = 600.0
    expect: Expectation = Expectation()

    @property
    def model_id(self) -> str:
        """Return the name that clients ask for."""
        return self.served_model_name or self.model


class Ladder(SpecModel):
    """An ordered list of engine names; the first is the baseline of every gain.

    ``workloads`` are those it is measured under when none is asked for; empty: all of the workloads file.
    """

    name: str
    platform: Platform
    engines: tuple[str, ...] = Field(min_length=1)
    workloads: tuple[str, ...] = ()
