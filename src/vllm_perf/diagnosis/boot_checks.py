# SPDX-License-Identifier: Apache-2.0
"""Compare what was asked of an engine with what its boot log says it runs."""

from collections.abc import Mapping

from vllm_perf.diagnosis.boot_facts import BootFacts
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category


def check_boot(
    facts: BootFacts, *, asked: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> tuple[Diagnosis, ...]:
    """Return every difference that makes results not comparable; empty where the engine runs what was asked.

    ``asked`` maps flag names with underscores to values (default: what the log repeats), ``env`` is the
    server's environment.
    """
    wanted = {**facts.asked, **(asked or {})}
    found = [_backend(facts, wanted, env or {}), _slow_kernel(facts, wanted), _length(facts, wanted)]
    found += [_kv_dtype(facts, wanted), _prefix_caching(facts, wanted)]
    return tuple(item for item in found if item is not None)


def _backend(facts: BootFacts, asked: Mapping[str, str], env: Mapping[str, str]) -> Diagnosis | None:
    wanted = asked.get("attention_backend") or env.get("VLLM_ATTENTION_BACKEND")
    if not wanted or wanted.lower() in ("auto", "none") or facts.attention_backend is None:
        return None
    name = wanted.rpartition(".")[2].upper()
    if name == facts.attention_backend:
        return None
    source = "--attention-backend" if asked.get("attention_backend") else "VLLM_ATTENTION_BACKEND"
    way = (
        "use --attention-backend"
        if source == "VLLM_ATTENTION_BACKEND"
        else "drop it, or choose one that fits"
    )
    return Diagnosis(
        category=Category.BACKEND_NOT_APPLIED,
        cause=f"{source} asks for {name}, but the engine runs {facts.attention_backend}",
        evidence=f"boot log of vLLM {facts.version or '(version unknown)'}: {facts.attention_backend}",
        remedy=f"{way}; do not compare these results with those of {name}",
        figures={"asked": name, "applied": facts.attention_backend},
    )


def _slow_kernel(facts: BootFacts, asked: Mapping[str, str]) -> Diagnosis | None:
    note = next((note for note in facts.notes if note.kind == "slow_quantization_kernel"), None)
    if note is None:
        return None
    return Diagnosis(
        category=Category.CONFIG_NOT_APPLIED,
        cause=note.text,
        evidence=note.seen,
        remedy="drop --quantization: the checkpoint says which method it is, and vLLM picks the "
        "fastest kernel",
        figures={"asked": asked.get("quantization", ""), "applied": facts.quantization_kernel or ""},
    )


def _length(facts: BootFacts, asked: Mapping[str, str]) -> Diagnosis | None:
    return _differs("max_model_len", asked.get("max_model_len"), facts.max_model_len)


def _kv_dtype(facts: BootFacts, asked: Mapping[str, str]) -> Diagnosis | None:
    return _differs("kv_cache_dtype", asked.get("kv_cache_dtype"), facts.kv_cache_dtype)


def _prefix_caching(facts: BootFacts, asked: Mapping[str, str]) -> Diagnosis | None:
    return _differs("enable_prefix_caching", asked.get("enable_prefix_caching"), facts.prefix_caching)


def _differs(name: str, wanted: str | None, applied: object) -> Diagnosis | None:
    if (
        wanted is None
        or applied is None
        or wanted in ("auto", "None")
        or wanted.lower() == str(applied).lower()
    ):
        return None
    if not _comparable(wanted, applied):
        return None
    flag = "--" + name.replace("_", "-")
    return Diagnosis(
        category=Category.CONFIG_NOT_APPLIED,
        cause=f"{flag} {wanted} was asked for, but the engine runs with {applied}",
        evidence=f"boot log: {name}={applied}",
        remedy=f"find out why {flag} was not applied before comparing results",
        figures={"asked": wanted, "applied": str(applied)},
    )


def _comparable(wanted: str, applied: object) -> bool:
    # "8k" and "-1" (as long as fits) are legal lengths that no log repeats.
    return not isinstance(applied, int) or isinstance(applied, bool) or wanted.isdigit()
