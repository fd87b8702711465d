# SPDX-License-Identifier: Apache-2.0
"""The suite's options, each with an ini twin, turned into one frozen object at the border."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from vllm_perf.pytest_plugin.contradictions import refuse_contradictions
from vllm_perf.pytest_plugin.gate_options import GateChoice, read_gate
from vllm_perf.spec.client import CLIENTS, DEFAULT_CLIENT, Client
from vllm_perf.spec.comparison import RUN_ALLOWED

Profile = Literal["quick", "full"]
FailOn = Literal["regression", "inconclusive", "never"]


class Option(NamedTuple):
    """One option: ``kind`` is how argparse takes it, ``default`` what holds without it."""

    name: str
    kind: Literal["value", "list", "flag"]
    default: Any
    help: str
    choices: tuple[str, ...] = ()


OPTIONS: tuple[Option, ...] = (
    Option(
        "profile",
        "value",
        "full",
        "quick: the last rung under chat; full: everything",
        ("quick", "full"),
    ),
    Option("ladder", "value", None, "ladder of the engines file to climb (default: the platform's first)"),
    Option("engine", "list", (), "measure only this engine (repeatable)"),
    Option("workload", "list", (), "measure only this workload (repeatable)"),
    Option("base-url", "value", None, "test a server that someone else runs, e.g. http://host:8000/v1"),
    Option("model", "value", None, "model id to ask --perf-base-url for"),
    Option(
        "client",
        "value",
        DEFAULT_CLIENT,
        "what sends the load: our own sockets, or the openai SDK as an application uses it",
        CLIENTS,
    ),
    Option("api-key-env", "value", None, "name of the environment variable that holds the key"),
    Option("channel", "value", None, "test this channel of the channels file, within its limits and its cap"),
    Option("channels-file", "value", "fixtures/channels.toml", "where channels are described"),
    Option("spend-cap", "value", None, "the most that --perf-channel may cost, in its own currency"),
    Option("golden", "flag", False, "use the golden engine (known timing) in place of vLLM"),
    Option("require-gpu", "flag", False, "fail instead of measuring on the CPU when there is no GPU"),
    Option("history", "value", None, "folder of stored runs (default: .vllm-perf/history)"),
    Option("baseline", "value", None, "git ref, stored run's file, or anchor to compare with"),
    Option(
        "fail-on",
        "value",
        "regression",
        "what a comparison fails on: a regression, also an inconclusive one, or nothing",
        ("regression", "inconclusive", "never"),
    ),
    Option("log-dir", "value", None, "folder for engine logs (default: .vllm-perf/logs)"),
    Option("engines-file", "value", "fixtures/engines.toml", "where engines are described"),
    Option("workloads-file", "value", "fixtures/workloads.toml", "where workloads are described"),
    Option("budgets-dir", "value", "fixtures/budgets", "folder of budgets, one file a kind of hardware"),
    Option("policy-file", "value", "fixtures/history.toml", "which parts must match for a comparison"),
    Option(
        "allowed-change",
        "value",
        str(RUN_ALLOWED),
        "share by which a metric may get worse (0.02 is 2 %)",
    ),
    Option("lock-wait", "value", "3600", "seconds to wait for another session's engine"),
    Option("resume", "flag", False, "take over cells that an interrupted run of the same work finished"),
    Option("download", "flag", False, "let vLLM download a model that is not on this machine"),
    Option("gate", "value", None, "gate two engines: --perf-gate=BASE..HEAD (names, @first, @last)"),
    Option("gate-base-python", "value", None, "gate: interpreter with the base's vLLM"),
    Option("gate-head-python", "value", None, "gate: interpreter with the head's vLLM"),
    Option(
        "gate-base-engines", "value", None, "gate: the base's engines file (default: --perf-engines-file)"
    ),
    Option(
        "gate-head-engines", "value", None, "gate: the head's engines file (default: --perf-engines-file)"
    ),
    Option("gate-min-pairs", "value", None, "gate: pairs of boots before the first look (default: 3)"),
    Option("gate-max-pairs", "value", None, "gate: pairs of boots at most (default: 8)"),
    Option("gate-max-minutes", "value", None, "gate: begin no pair that would pass it"),
    Option("repetitions", "value", None, "repetitions of every workload in place of its own number"),
    Option("html", "value", None, "write the report as one HTML page to this file"),
    Option("markdown", "value", None, "write the job summary as Markdown to this file"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfConfig:
    """What the user asked for; every path is absolute.

    ``resumed_runs`` are stored runs that hold cells of this very session: never a baseline of it.
    """

    root: Path
    profile: Profile
    ladder: str | None
    engines: tuple[str, ...]
    workloads: tuple[str, ...]
    base_url: str | None
    model: str | None
    api_key_env: str | None
    channel: str | None
    channels_file: Path
    spend_cap: float | None
    client: Client
    golden: bool
    require_gpu: bool
    history_dir: Path
    baseline: str | None
    fail_on: FailOn
    log_dir: Path
    engines_file: Path
    workloads_file: Path
    budgets_dir: Path
    policy_file: Path
    allowed_change: float
    lock_wait_s: float
    resume: bool
    download: bool
    repetitions: int | None
    html: Path | None
    markdown: Path | None
    compare: bool
    gate: GateChoice | None = None
    resumed_runs: tuple[str, ...] = ()

    @property
    def work_dir(self) -> Path:
        """Return the folder for everything this project keeps in a checkout."""
        return self.root / ".vllm-perf"

    @property
    def api_key(self) -> str | None:
        """Return the key from the environment variable that was named, never stored anywhere."""
        return os.environ.get(self.api_key_env) if self.api_key_env else None


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and its ini twin."""
    group = parser.getgroup("vllm-perf", "performance of vLLM servers")
    for option in OPTIONS:
        flag = f"--perf-{option.name}"
        dest = _dest(option.name)
        ini = f"perf_{option.name.replace('-', '_')}"
        if option.kind == "flag":
            group.addoption(flag, dest=dest, action="store_true", default=None, help=option.help)
            parser.addini(ini, option.help, type="bool", default=option.default)
        elif option.kind == "list":
            group.addoption(flag, dest=dest, action="append", metavar="NAME", help=option.help)
            parser.addini(ini, option.help, type="args", default=list(option.default))
        else:
            choices = option.choices or None
            group.addoption(flag, dest=dest, default=None, choices=choices, metavar="VALUE", help=option.help)
            parser.addini(ini, option.help, default=option.default)


def _dest(name: str) -> str:
    return f"perf_{name.replace('-', '_')}"


def _get(config: pytest.Config, option: Option) -> Any:
    given = config.getoption(_dest(option.name))
    if given is not None:
        return given
    value = config.getini(f"perf_{option.name.replace('-', '_')}")
    if option.choices and value not in option.choices:
        raise pytest.UsageError(
            f"perf_{option.name}: '{value}' is not one of {', '.join(option.choices)} (in the ini file)"
        )
    return value


def read_options(config: pytest.Config) -> PerfConfig:
    """Return the user's choices.

    Raises:
        pytest.UsageError: two of them contradict each other, or a number is none.
    """
    raw = {option.name: _get(config, option) for option in OPTIONS}
    refuse_contradictions(config, raw)
    allowed = _number(raw["allowed-change"], "--perf-allowed-change")
    # What was not asked for is each command's own: a gate's pairs of boots allow for other than one run does.
    asked = None if config.getoption("perf_allowed_change") is None else allowed
    root = config.rootpath
    work = root / ".vllm-perf"
    return PerfConfig(
        root=root,
        profile=raw["profile"],
        ladder=raw["ladder"],
        engines=tuple(raw["engine"]),
        workloads=tuple(raw["workload"]),
        base_url=raw["base-url"].rstrip("/") if raw["base-url"] else None,
        model=raw["model"],
        api_key_env=raw["api-key-env"],
        channel=raw["channel"],
        channels_file=root / raw["channels-file"],
        spend_cap=_number(raw["spend-cap"], "--perf-spend-cap") if raw["spend-cap"] is not None else None,
        client=raw["client"],
        golden=bool(raw["golden"]),
        require_gpu=bool(raw["require-gpu"]),
        history_dir=_path(root, raw["history"]) or work / "history",
        baseline=raw["baseline"],
        fail_on=raw["fail-on"],
        log_dir=_path(root, raw["log-dir"]) or work / "logs",
        engines_file=root / raw["engines-file"],
        workloads_file=root / raw["workloads-file"],
        budgets_dir=root / raw["budgets-dir"],
        policy_file=root / raw["policy-file"],
        allowed_change=allowed,
        lock_wait_s=_number(raw["lock-wait"], "--perf-lock-wait"),
        resume=bool(raw["resume"]),
        download=bool(raw["download"]),
        repetitions=_count(raw["repetitions"], "--perf-repetitions"),
        html=_path(root, raw["html"]),
        markdown=_path(root, raw["markdown"]),
        compare=bool(config.getoption("benchmark_compare", None)),
        gate=read_gate(root, raw, asked),
    )


def _path(root: Path, value: str | None) -> Path | None:
    return root / value if value else None


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise pytest.UsageError(f"{what}: '{text}' is not a number") from None
    if number < 0 or not math.isfinite(number):
        raise pytest.UsageError(f"{what}: {text} is negative or without end")
    return number


def _count(text: str | None, what: str) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise pytest.UsageError(f"{what}: '{text}' is not a whole number of at least 1")
    return int(text)


def swallowed_path(config: pytest.Config) -> str | None:
    """Return the path that ``--benchmark-compare PATH`` took as a run's name, if it did.

    ``pytest --benchmark-compare tests/perf`` would compare nothing, collect everything and exit 0. A stored
    run may be named by its file as well, so that only folders, Python files and node ids are tests.
    """
    value = config.getoption("benchmark_compare", None)
    if not isinstance(value, str):
        return None
    path = config.invocation_params.dir / value.split("::", 1)[0]
    return value if path.is_dir() or (path.suffix == ".py" and path.is_file()) else None


def is_perf_project(config: pytest.Config) -> bool:
    """Tell whether this project describes engines, so that perf tests may come."""
    name = config.getoption(_dest("engines-file")) or config.getini("perf_engines_file")
    return (config.rootpath / str(name)).is_file()
