# SPDX-License-Identifier: Apache-2.0
"""pytest-benchmark's own code and github-action-benchmark's rules read a history directory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_benchmark
import pytest_benchmark.storage.file

from tests.unit.history.builders import at, record, series
from vllm_perf.history.document import BENCHMARK_VERSION
from vllm_perf.history.store import Store

FileStorage: Any = pytest_benchmark.storage.file.FileStorage  # the package has no types


class Logger:
    """Take pytest-benchmark's warnings and fail on any."""

    def warning(self, text: str) -> None:
        raise AssertionError(text)

    def info(self, text: str) -> None:
        raise AssertionError(text)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    for number, value in enumerate((200.0, 150.0)):
        Store(tmp_path).save(
            record(
                series(value=value, replicates=(value,)),
                series(
                    metric="output_throughput",
                    unit="tokens/s",
                    direction="higher",
                    value=160.0,
                    replicates=(160.0,),
                ),
                run_id=f"run{number}",
                created=at(number),
                commit="a" * 40,
            )
        )
    Store(tmp_path).contents()  # the index lies there too
    (tmp_path / "anchors.toml").write_text("[anchors]\n")
    return tmp_path


def test_pytest_benchmarks_storage_takes_the_latest_run_as_the_latest(history: Path) -> None:
    loaded = list(FileStorage(history, Logger(), default_machine_id="Linux-CPython-3.11-64bit").load())
    assert [data["vllm_perf"]["run_id"] for _path, data in loaded] == ["run0", "run1"]


def test_pytest_benchmarks_storage_finds_a_run_by_its_year(history: Path) -> None:
    assert len(list(FileStorage(history, Logger()).load("2026_0830T1001"))) == 1


@pytest.mark.parametrize(
    "arguments", [(), ("--between=median,ops",), ("--group-by=param:engine",), ("--name=long",)]
)
def test_the_compare_command_of_pytest_benchmark_reads_it(history: Path, arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "--storage", str(history), "compare", *arguments],
        cwd=history,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "ttft_p50[initial-chat]" in done.stdout
    assert "200.0000" in done.stdout
    assert "150.0000" in done.stdout


def test_its_ops_column_reads_tokens_a_second(history: Path) -> None:
    loaded = list(FileStorage(history, Logger()).load())[-1][1]
    row = next(b for b in loaded["benchmarks"] if b["name"].startswith("output_throughput"))
    assert row["stats"]["ops"] == pytest.approx(160.0)


def test_github_action_benchmark_finds_what_it_reads(history: Path) -> None:
    def refuse(constant: str) -> Any:
        raise AssertionError(f"JSON.parse refuses {constant}")

    for path in history.glob("*.json"):
        document = json.loads(path.read_text(), parse_constant=refuse)
        for row in document["benchmarks"]:
            assert isinstance(row["fullname"], str)
            assert all(
                isinstance(row["stats"][name], int | float) for name in ("mean", "stddev", "rounds", "ops")
            )
        assert document["commit_info"]["id"] == "a" * 40


def test_h70_two_runs_on_one_machine_have_equal_machine_info(history: Path) -> None:
    infos = [json.loads(path.read_text())["machine_info"] for path in history.glob("*.json")]
    assert infos[0] == infos[1]
    assert not any("hz" in name for name in infos[0])


def test_h75_the_distribution_is_kept_whole(tmp_path: Path) -> None:
    requests = (100.0, 200.0, 300.0)
    path = Store(tmp_path).save(record(series(value=200.0, samples=(requests,))))
    assert Store(tmp_path).load(path.name).series[0].samples == (requests,)
    row = json.loads(path.read_text())["benchmarks"][0]
    assert row["stats"]["rounds"] == 3


def test_the_schema_is_that_of_the_installed_pytest_benchmark_or_older() -> None:
    installed = [int(part) for part in pytest_benchmark.__version__.split(".")]
    assert [int(part) for part in BENCHMARK_VERSION.split(".")] <= installed
