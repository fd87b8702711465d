# SPDX-License-Identifier: Apache-2.0
"""What pytest-benchmark stores and takes for the baseline: each trap beside what ours does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_benchmark.storage.file

from tests.plugin.projects import CONFTEST, Project
from tests.plugin.stock import COMPARE, StockProject
from tests.plugin.test_comparison import commit, git
from tests.plugin.test_traps_gate import OURS, slower
from tests.unit.history.builders import at, environment, record
from tests.unit.history.test_other_tools import Logger
from vllm_perf.cli import main
from vllm_perf.history import store as store_module
from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.document import from_json
from vllm_perf.history.git import Suite, describe_suite
from vllm_perf.history.lineage import Lineage, Tier
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.history.store import Store
from vllm_perf.spec.history import HistorySpec

FileStorage: Any = pytest_benchmark.storage.file.FileStorage  # the package has no types
# Hooks of pytest-benchmark that a project has in its conftest.py.
MACHINE = """
def pytest_benchmark_update_machine_info(config, machine_info):
    machine_info{key} = {value}
"""
UNIT = """
def pytest_benchmark_scale_unit(config, unit, benchmarks, best, worst, sort):
    return "UNIT-OF-OURS ", 1.0
"""
CALIBRATED = """
calls = []

def test_load(benchmark):
    benchmark(lambda: calls.append(1))
    print("sent", len(calls), "times")
"""


def test_pb15_another_machine_is_no_baseline(stock: StockProject, measured: Project) -> None:
    for gpu, seconds in (("H200", 0.2), ("L4", 0.3)):
        stock.write("conftest.py", MACHINE.format(key='["gpu"]', value=repr(gpu)))
        stock.measured(ttft=seconds)
        run = stock.run(*(COMPARE if gpu == "L4" else ()))
    assert run.code == 1  # an L4 is slower than an H200
    (path,) = (measured.root / ".vllm-perf/history").glob("*.json")
    document = json.loads(path.read_text())
    for cell in document["vllm_perf"]["cells"]:
        cell["environment"]["hardware"]["cpu_model"] = "another"
    path.write_text(json.dumps(document))
    slower(measured)
    ours = measured.run(*OURS, "--perf-fail-on", "inconclusive", "-k", "ttft_p50")
    assert ours.code == 10, ours.text
    assert "no baseline for this hardware" in ours.text


def test_pb15_another_branch_is_no_baseline(stock: StockProject, project: Project) -> None:
    stock.run()
    stock.measured(ttft=0.1)
    stock.run()  # on another branch, as far as anybody knows
    stock.measured(ttft=0.2)
    assert stock.run(*COMPARE).code == 1
    project.write(".gitignore", ".vllm-perf/\n.benchmarks/\nstate/\n*.xml\n__pycache__/\n")
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project, "main")
    few = (*OURS, "-k", "ttft_p50")
    assert project.run(*few).code == 0
    git(project, "switch", "--quiet", "--create", "fast")
    project.engines("ttft-ms = 100", "ttft-ms = 50")
    commit(project, "fast")
    assert project.run(*few).code == 0
    git(project, "switch", "--quiet", "main")
    ours = project.run(*few)
    assert ours.code == 0, ours.text


def test_pb16_one_record_is_read_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    for number in range(30):
        store.save(record(run_id=f"run{number:02d}", created=at(number)))
    storage = FileStorage(tmp_path, Logger())
    assert list(storage.load())[-1:]
    assert len(storage._cache) == 30
    store.contents()
    read: list[str] = []

    def reading(text: str) -> RunRecord:
        read.append(text)
        return from_json(text)

    monkeypatch.setattr(store_module, "from_json", reading)
    runs = store.contents().runs
    store.load(runs[-1].file)
    assert len(runs) == 30
    assert len(read) == 1


def test_pb17_names_need_no_counter(stock: StockProject, tmp_path: Path) -> None:
    stock.run()
    (first,) = stock.stored()
    first.rename(first.with_name("9999_first.json"))
    stock.measured(ttft=0.3)
    stock.run()
    assert stock.run(*COMPARE).code == 1  # the latest was as slow, and is not found
    store = Store(tmp_path / "history")
    years = ("2026-08-30", "2027-01-01", "9999-12-31")
    for year in years:
        store.save(record(run_id=year[:4], created=f"{year}T00:00:00+00:00"))
    (store.directory / "9999_first.json").write_text("{}")
    contents = store.contents()
    assert [run.created[:10] for run in contents.runs] == list(years)
    assert len(contents.warnings) == 1


def test_pb19_h74_the_servers_version_is_in_the_record(stock: StockProject, tmp_path: Path) -> None:
    stock.run()
    subprocess.run(["git", "init", "--quiet", str(stock.root)], check=True)
    stock.run()
    ids = [one["commit_info"]["id"] for one in stock.saved()]
    assert ids == ["unversioned", "unknown"]  # of the folder, in whatever state it is; of the server, nothing
    store = Store(tmp_path / "history")
    store.save(record(env=environment(vllm="0.32.0"), commit="a" * 40))
    head = record(run_id="head", env=environment(vllm="0.33.0"), commit="a" * 40)
    lineage = Lineage(tiers=(Tier(ranks=None),), past="any commit")
    found = find_baselines(store.contents().runs, head, lineage=lineage, policy=HistorySpec()).found
    (baseline,) = found.values()
    assert baseline.key == SeriesKey("initial", "chat", "ttft_p50")
    assert baseline.differences == ("software.vllm_version: 0.32.0 → 0.33.0",)
    assert describe_suite(tmp_path) == Suite(note=describe_suite(tmp_path).note)
    assert "git" in (describe_suite(tmp_path).note or "")


def test_pb20_a_record_is_read_alike_from_everywhere(
    stock: StockProject, measured: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    stock.write("tests/perf/conftest.py", UNIT)
    assert "UNIT-OF-OURS" in stock.run().text
    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare"],
        cwd=stock.root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "UNIT-OF-OURS" not in done.stdout
    slower(measured)
    assert measured.run("-k", "ttft_p50").code == 0  # nothing was compared
    monkeypatch.chdir(tmp_path)
    words = ["--history", str(measured.root / ".vllm-perf/history")]
    assert main(["compare", *measured.record_ids(), *words]) == 1
    assert "REGRESSED" in capsys.readouterr().out


def test_h70_a_clock_that_moves_is_no_other_machine(stock: StockProject, measured: Project) -> None:
    hooks = [MACHINE.format(key='["cpu"]["hz_actual"]', value=f"[{hz}, 0]") for hz in (2_000, 2_001)]
    stock.write("conftest.py", hooks[0])
    stock.run()
    stock.write("conftest.py", hooks[1])
    run = stock.run("--benchmark-compare", "-W", "error::pytest_benchmark.logger.PytestBenchmarkWarning")
    assert run.code not in (0, 1)
    assert "Benchmark machine_info is different" in run.text
    for hook in hooks:
        measured.write("conftest.py", f"{CONFTEST}\nimport pytest\n@pytest.hookimpl(tryfirst=True){hook}")
        ours = measured.run(*OURS, "-W", "error", "-k", "ttft_p50")
        assert ours.code == 0, ours.text
        assert "machine_info is different" not in ours.text


def test_h75_a_load_is_sent_once(stock: StockProject, measured: Project) -> None:
    stock.write("tests/perf/test_load.py", CALIBRATED)
    run = stock.run("-k", "test_load", "-s")
    assert int(run.text.split("sent ")[1].split(" times")[0]) > 5
    (stored,) = measured.records()
    rows = [row for row in stored["benchmarks"] if row["name"] == "ttft_p50[last-chat]"]
    assert [row["stats"]["rounds"] for row in rows] == [24]  # 3 repetitions of 8 requests, as was asked
    assert measured.boots() == ["last"]
