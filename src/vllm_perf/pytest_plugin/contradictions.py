# SPDX-License-Identifier: Apache-2.0
"""Options that cannot be meant together: said at once, before anything is measured."""

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

import pytest

from vllm_perf.spec.client import DEFAULT_CLIENT

# Options that choose an engine of ours; a server that someone else runs is the only engine there is.
OF_OUR_ENGINES = ("golden", "engine", "ladder", "require-gpu")
# A gate boots two sides of its own, and goes on by itself where it was cut.
NOT_OF_A_GATE = ("base-url", "engine", "ladder", "resume", "html", "repetitions")
# Given on the command line they have no effect unless something is compared.
OF_COMPARING = {"baseline": "compares nothing", "fail-on": "has no effect"}


def refuse_contradictions(config: pytest.Config, raw: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other; ``raw`` is by name without ``--perf-``.

    Raises:
        pytest.UsageError: two do, or one needs another that is not there.
    """
    if (raw["base-url"] is None) != (raw["model"] is None):
        missing = "--perf-model" if raw["model"] is None else "--perf-base-url"
        raise pytest.UsageError(f"--perf-base-url and --perf-model go together; {missing} is missing")
    for name in OF_OUR_ENGINES if raw["base-url"] else ():
        if raw[name]:
            raise pytest.UsageError(f"--perf-{name} and --perf-base-url exclude each other; leave one out")
    _refuse_for_a_channel(raw)
    if raw["golden"] and raw["require-gpu"]:
        raise pytest.UsageError("--perf-golden needs no GPU and --perf-require-gpu does; leave one out")
    if raw["api-key-env"] and not os.environ.get(raw["api-key-env"]):
        raise pytest.UsageError(f"--perf-api-key-env: environment variable '{raw['api-key-env']}' is not set")
    _require_comparing(config)
    _refuse_lost_checks(config)
    _refuse_for_a_gate(config, raw)
    if config.getoption("benchmark_histogram", None) and importlib.util.find_spec("pygal") is None:
        raise pytest.UsageError(
            "--benchmark-histogram needs pygal and pygaljs: pip install 'pytest-benchmark[histogram]'"
        )


def _refuse_for_a_channel(raw: Mapping[str, Any]) -> None:
    if not raw["channel"]:
        if raw["spend-cap"] is not None:
            raise pytest.UsageError("--perf-spend-cap caps nothing without --perf-channel")
        return
    for name in ("base-url", "api-key-env", *OF_OUR_ENGINES):
        if raw[name]:
            raise pytest.UsageError(f"--perf-{name} and --perf-channel exclude each other; leave one out")
    if raw["client"] != DEFAULT_CLIENT:
        raise pytest.UsageError("--perf-channel keeps a channel's limits with the socket client alone")


def _refuse_lost_checks(config: pytest.Config) -> None:
    """Refuse a second ``--benchmark-compare-fail``: pytest-benchmark would forget the first.

    Raises:
        pytest.UsageError: it was given more than once.
    """
    option = "--benchmark-compare-fail"
    words = [word for word in config.invocation_params.args if isinstance(word, str)]
    given = [at for at, word in enumerate(words) if word.partition("=")[0] == option]
    if len(given) > 1:
        checks = [words[at].partition("=")[2] or " ".join(words[at + 1 : at + 2]) for at in given]
        raise pytest.UsageError(
            f"{option} was given {len(given)} times, and pytest-benchmark keeps the last alone; "
            f"write {'both' if len(given) == 2 else 'all'} after one: {option} {' '.join(checks)}"
        )


def _refuse_for_a_gate(config: pytest.Config, raw: Mapping[str, Any]) -> None:
    if raw["gate"] is None:
        return
    for name in NOT_OF_A_GATE:
        if raw[name]:
            raise pytest.UsageError(f"--perf-{name} and --perf-gate exclude each other; leave one out")
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError("--perf-gate boots two engines in turn on one device: run it without -n")


def _require_comparing(config: pytest.Config) -> None:
    if config.getoption("benchmark_compare", None):
        return
    for name, effect in OF_COMPARING.items():
        if config.getoption(f"perf_{name.replace('-', '_')}") is not None:
            raise pytest.UsageError(f"--perf-{name} {effect} without --benchmark-compare")
    if config.getoption("benchmark_compare_fail", None):
        raise pytest.UsageError("--benchmark-compare-fail needs --benchmark-compare")
