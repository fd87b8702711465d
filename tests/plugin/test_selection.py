# SPDX-License-Identifier: Apache-2.0
"""Which tests there are, in which order, and what each option does."""

import json
import re
from typing import Any

import pytest

from tests.plugin.conftest import TwoRuns
from tests.plugin.projects import Project
from vllm_perf.pytest_plugin.options import OPTIONS

TWO_WORKLOADS = """
[workloads.chat]
prompt = { kind = "shared_prefix", shared_tokens = 64, unique_tokens = 8 }
requests = 4

[workloads.unique]
prompt = { kind = "unique", unique_tokens = 40 }
requests = 4
"""
# Writes down what the plugin understood, as soon as it has understood it.
TELLTALE = """
import json
from vllm_perf.pytest_plugin.options import read_options

def pytest_collection_finish(session):
    config = read_options(session.config)
    told = {name: getattr(config, name) for name in config.__slots__}
    (config.root / "told.json").write_text(json.dumps(told, default=str))
    controller = session.config.pluginmanager.get_plugin("vllm_perf_controller")
    plan = [workload.repetitions for workload in controller.plan.workloads] if controller else []
    (config.root / "plan.json").write_text(json.dumps(plan))
"""


def collect(project: Project, *args: str, paths: tuple[str, ...] = ("tests/perf",)) -> list[str]:
    """Return the ids of the collected tests, in order."""
    run = project.run("--collect-only", "-q", *args, paths=paths)
    assert run.code in (0, 5), run.text
    return [line for line in run.text.splitlines() if "::" in line]


def usage_error(project: Project, *args: str, golden: bool = True) -> str:
    """Return the message of a usage error."""
    run = project.run("--collect-only", "-q", *args, golden=golden)
    assert run.code == 4, run.text
    assert "Traceback" not in run.text
    return run.text


def engines_of(ids: list[str]) -> list[str]:
    """Return the engine of each test, repetitions in a row counted once."""
    found = [re.findall(r"\[(?:ladder:)?(\w+)", name)[0] for name in ids]
    return [name for index, name in enumerate(found) if not index or found[index - 1] != name]


def test_each_engine_boots_once(two_runs: TwoRuns) -> None:
    assert two_runs.alone_boots == ["first", "last", "middle"]


def test_tests_come_engine_by_engine_whatever_the_order_of_files(ladder: Project) -> None:
    files = sorted(f"tests/perf/{path.name}" for path in (ladder.root / "tests/perf").glob("test_*.py"))
    for paths in (files, files[::-1]):
        ids = collect(ladder, "-p", "no:randomly", paths=tuple(paths))
        assert engines_of(ids) == ["first", "middle", "last"]
        assert "test_boot" in ids[0]
        assert ids[-1].endswith("[ladder:last:chat:output_throughput]")


def test_workloads_come_one_after_another_within_an_engine(project: Project) -> None:
    project.write("fixtures/workloads.toml", TWO_WORKLOADS)
    workloads = [name.split(":")[3] for name in collect(project)]
    assert workloads == sorted(workloads, key=["boot", "chat", "unique"].index)
    assert set(workloads) == {"boot", "chat", "unique"}


def test_an_id_names_engine_workload_and_metric(project: Project) -> None:
    assert "tests/perf/test_ttft.py::test_first_token_comes_in_time[last:chat:ttft_p95]" in collect(project)


def test_k_selects_by_engine_metric_and_workload(ladder: Project) -> None:
    assert [name.split("[")[1] for name in collect(ladder, "-k", "middle and ttft_p50")] == [
        "middle:chat:ttft_p50]"
    ]


def test_perf_engine_and_perf_workload_narrow_it_down(ladder: Project) -> None:
    ladder.write("fixtures/workloads.toml", TWO_WORKLOADS)
    ids = collect(ladder, "--perf-engine", "middle", "--perf-engine", "first", "--perf-workload", "unique")
    assert engines_of(ids) == ["middle", "first"]  # in the order asked for
    assert {name.split(":")[3] for name in ids} == {"boot", "unique"}


def test_quick_takes_the_last_rung_under_chat(ladder: Project) -> None:
    ladder.write("fixtures/workloads.toml", TWO_WORKLOADS)
    ids = collect(ladder, "--perf-profile", "quick")
    assert engines_of(ids) == ["last"]
    assert {name.split(":")[3] for name in ids} == {"boot", "chat"}


def test_quick_measures_once(ladder: Project) -> None:
    ladder.write("conftest.py", TELLTALE)
    for args, repetitions in (((), 3), (("--perf-profile", "quick"), 3), (("--perf-repetitions", "7"), 7)):
        collect(ladder, *args)
        assert json.loads((ladder.root / "plan.json").read_text()) == [repetitions]


def test_a_ladder_of_one_rung_has_no_gain_to_test(project: Project) -> None:
    assert not [name for name in collect(project) if "gains" in name]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--perf-engine", "lst"),
            "engine 'lst' is not known. did you mean 'last'? Known: first, middle, last",
        ),
        (("--perf-workload", "chatt"), "did you mean 'chat'? Known: chat"),
        (("--perf-ladder", "gold"), "ladder 'gold' is not known. did you mean 'golden'? Known: golden"),
        (("--perf-profile", "fast"), "invalid choice: 'fast' (choose from"),
        (("--perf-fail-on", "always"), "invalid choice: 'always' (choose from"),
        (("--perf-base-url", "http://x/v1"), "--perf-model is missing"),
        (("--perf-model", "x"), "--perf-base-url is missing"),
        (("--perf-base-url", "http://x/v1", "--perf-model", "x"), "exclude each other"),
        (("--perf-api-key-env", "NO_SUCH_KEY"), "environment variable 'NO_SUCH_KEY' is not set"),
        (("--perf-require-gpu",), "--perf-require-gpu"),
        (("--perf-allowed-change", "much"), "--perf-allowed-change: 'much' is not a number"),
        (("--perf-allowed-change", "-1"), "--perf-allowed-change: -1 is negative or without end"),
        (("--perf-lock-wait", "nan"), "--perf-lock-wait: nan is negative or without end"),
        (("--perf-repetitions", "0"), "--perf-repetitions: '0' is not a whole number of at least 1"),
        (("--perf-repetitions", "1.5"), "--perf-repetitions: '1.5' is not a whole number of at least 1"),
        (("--perf-baseline", "main"), "--perf-baseline compares nothing without --benchmark-compare"),
        (("--perf-fail-on", "inconclusive"), "--perf-fail-on has no effect without --benchmark-compare"),
        (("--benchmark-compare-fail=median:5%",), "--benchmark-compare-fail needs --benchmark-compare"),
        (
            ("--benchmark-compare", "--perf-baseline", "no-such"),
            "'no-such' is no file, no anchor (none), no commit known here and none of the 0 runs in",
        ),
        (("--perf-engines-file", "none.toml"), "none.toml: cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(project: Project, args: tuple[str, ...], message: str) -> None:
    assert message in usage_error(project, *args).replace("\n", " ")


@pytest.mark.parametrize(
    "args", [("--perf-engine", "last"), ("--perf-ladder", "golden"), ("--perf-require-gpu",)]
)
def test_choosing_engines_contradicts_a_server_someone_else_runs(
    project: Project, args: tuple[str, ...]
) -> None:
    server = ("--perf-base-url", "http://127.0.0.1:9/v1", "--perf-model", "x")
    assert "--perf-base-url" in usage_error(project, *server, *args, golden=False)


def test_a_histogram_that_cannot_be_drawn_is_refused_before_anything_runs(project: Project) -> None:
    project.write("conftest.py", "import sys\nsys.modules['pygal'] = None\n")
    said = usage_error(project, "--benchmark-histogram")
    assert "--benchmark-histogram needs pygal and pygaljs: pip install 'pytest-benchmark[histogram]'" in said


def test_a_swallowed_path_is_refused(project: Project) -> None:
    for swallowed in ("tests/perf", "tests/perf/test_ttft.py", "tests/perf/test_ttft.py::test_x"):
        run = project.run("--benchmark-compare", swallowed, paths=())
        assert run.code == 4
        assert f"Put the path first: pytest {swallowed} --benchmark-compare" in run.text


def test_a_stored_file_may_be_named_to_pytest_benchmark(project: Project) -> None:
    project.write("old.json", json.dumps({"benchmarks": [], "machine_info": {}}))
    assert collect(project, "--benchmark-compare", "old.json")


# Option, value, what is understood: together as far as they do not contradict each other.
OURS: dict[str, tuple[str, Any]] = {
    "profile": ("quick", "quick"),
    "ladder": ("golden", "golden"),
    "engine": ("last first", ["last", "first"]),
    "workload": ("chat", ["chat"]),
    "golden": ("true", True),
    "require-gpu": ("false", False),
    "history": ("past", "past"),
    "baseline": ("old.json", "old.json"),
    "fail-on": ("never", "never"),
    "log-dir": ("logs", "logs"),
    "engines-file": ("other/engines.toml", "other/engines.toml"),
    "workloads-file": ("other/workloads.toml", "other/workloads.toml"),
    "budgets-dir": ("other", "other"),
    "policy-file": ("other/history.toml", "other/history.toml"),
    "allowed-change": ("0.25", 0.25),
    "lock-wait": ("7", 7.0),
    "resume": ("true", True),
    "download": ("true", True),
    "repetitions": ("5", 5),
    "html": ("out.html", "out.html"),
    "markdown": ("out.md", "out.md"),
}
CHANNEL: dict[str, tuple[str, Any]] = {
    "channel": ("far", "far"),
    "channels-file": ("channels.toml", "channels.toml"),
    "spend-cap": ("0.5", 0.5),
}
THEIRS: dict[str, tuple[str, Any]] = {
    "base-url": ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1"),
    "model": ("x", "x"),
    "client": ("openai", "openai"),
    "api-key-env": ("PATH", "PATH"),
}
NEEDS_A_GPU: dict[str, tuple[str, Any]] = {"require-gpu": ("true", True)}
A_GATE: dict[str, tuple[str, Any]] = {
    "gate": ("old..new", "GateSide(engine='old'"),
    "gate-base-python": ("/old/python", "python='/old/python'"),
    "gate-head-python": ("/new/python", "python='/new/python'"),
    "gate-base-engines": ("old.toml", "/old.toml')"),
    "gate-head-engines": ("new.toml", "/new.toml')"),
    "gate-min-pairs": ("4", "min_pairs=4"),
    "gate-max-pairs": ("9", "max_pairs=9"),
    "gate-max-minutes": ("7.5", "max_minutes=7.5"),
}
WISHES = ("ours", "theirs", "channel", "gpu", "gate")
FIELDS = {
    "engine": "engines",
    "workload": "workloads",
    "history": "history_dir",
    "lock-wait": "lock_wait_s",
}


def test_every_option_is_under_test() -> None:
    assert {*OURS, *THEIRS, *CHANNEL, *NEEDS_A_GPU, *A_GATE} == {option.name for option in OPTIONS}


@pytest.mark.parametrize("wishes", [OURS, THEIRS, CHANNEL, NEEDS_A_GPU, A_GATE], ids=WISHES)
@pytest.mark.parametrize("way", ["ini", "option"])
def test_an_option_and_its_ini_twin_are_understood_alike(
    project: Project, wishes: dict[str, tuple[str, Any]], way: str
) -> None:
    project.write("conftest.py", TELLTALE)
    args = ["--collect-only", "--benchmark-compare=0001"]
    if way == "ini":
        lines = [f"perf_{name.replace('-', '_')} = {value}\n" for name, (value, _) in wishes.items()]
        project.write("pytest.ini", (project.root / "pytest.ini").read_text() + "".join(lines))
    else:
        args += [word for name, (value, _) in wishes.items() for word in as_words(name, value)]
    project.write("tests/other/test_other.py", "def test_other(): pass")
    run = project.run(*args, golden=False, paths=("tests/other",))
    told = json.loads((project.root / "told.json").read_text())
    for name, (_, expected) in wishes.items():
        if name in A_GATE:
            assert expected in told["gate"]
            continue
        field = FIELDS.get(name, name.replace("-", "_"))
        assert told[field] in (expected, str(project.root / str(expected))), f"{name}: {run.text}"


def as_words(name: str, value: str) -> list[str]:
    """Return an option as it is written on the command line."""
    if next(option for option in OPTIONS if option.name == name).kind == "flag":
        return [f"--perf-{name}"] if value == "true" else []
    return [word for part in value.split() for word in (f"--perf-{name}", part)]


def test_an_option_wins_over_its_ini_twin(ladder: Project) -> None:
    ladder.write("pytest.ini", (ladder.root / "pytest.ini").read_text() + "perf_engine = first\n")
    assert engines_of(collect(ladder)) == ["first"]
    assert engines_of(collect(ladder, "--perf-engine", "last")) == ["last"]


def test_an_ini_value_that_cannot_be_meant_is_a_usage_error(project: Project) -> None:
    project.write("pytest.ini", (project.root / "pytest.ini").read_text() + "perf_profile = fast\n")
    assert "'fast' is not one of quick, full (in the ini file)" in usage_error(project)
