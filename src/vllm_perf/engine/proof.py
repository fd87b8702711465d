# SPDX-License-Identifier: Apache-2.0
"""Read back what an engine really runs and refuse a silent fall-back."""

import re

from vllm_perf.diagnosis.boot_facts import BootFacts, read_boot_facts
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import NotAsAsked
from vllm_perf.engine.http import ask
from vllm_perf.spec.category import Category

CACHE_CONFIG = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\} ", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def prove(engine: Engine, log: str) -> None:
    """Fill ``engine.facts`` from log and ``/metrics``, and compare with what the spec expects.

    Raises:
        NotAsAsked: something differs, or cannot be read back although an expectation names it.
    """
    facts = collect_facts(engine, log)
    engine.facts = facts
    differences = [
        f"{name}: asked {wanted}, runs {facts.get(name, 'unknown')}"
        for name, wanted in engine.spec.expect.model_dump(exclude_none=True).items()
        if not _matches(wanted, facts.get(name))
    ]
    if differences:
        backend = any(line.startswith("attention_backend") for line in differences)
        raise NotAsAsked(
            f"engine '{engine.name}' does not run what was asked",
            Diagnosis(
                category=Category.BACKEND_NOT_APPLIED if backend else Category.CONFIG_NOT_APPLIED,
                cause="the server booted, but fell back silently; a measurement would carry the wrong name",
                evidence="; ".join(differences),
                remedy="ask for what this platform supports, or correct the engine's expect table",
                log_path=engine.log_path,
            ),
        )


def _matches(wanted: object, seen: object) -> bool:
    if seen is None:
        return False
    if isinstance(wanted, str):
        return wanted.lower() == str(seen).lower()
    return wanted == seen


def collect_facts(engine: Engine, log: str) -> dict[str, str | int | float | bool]:
    """Return what the boot log and ``vllm:cache_config_info`` say; a fact nobody states is left out."""
    found: BootFacts = read_boot_facts(log)
    facts: dict[str, str | int | float | bool] = {
        name: value
        for name in BootFacts.__dataclass_fields__
        if isinstance(value := getattr(found, name), str | int | float | bool)
    }
    engine.warnings += tuple(found.warnings)
    labels = read_cache_config(ask(f"{engine.root_url}/metrics").body.decode("utf-8", "replace"))
    if "enable_prefix_caching" in labels:
        facts["prefix_caching"] = labels["enable_prefix_caching"] == "True"
    if labels.get("num_gpu_blocks", "").isdigit():
        facts["kv_blocks"] = int(labels["num_gpu_blocks"])
    if labels.get("block_size", "").isdigit():
        facts["block_size"] = int(labels["block_size"])
    if "cache_dtype" in labels:
        facts["kv_cache_dtype"] = labels["cache_dtype"]
    if engine.max_model_len is not None:
        facts["max_model_len"] = engine.max_model_len
    return facts


def read_cache_config(metrics: str) -> dict[str, str]:
    """Return the labels of ``vllm:cache_config_info``, empty when the series is missing."""
    match = CACHE_CONFIG.search(metrics)
    return dict(LABEL.findall(match["labels"])) if match else {}
