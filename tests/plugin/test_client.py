# SPDX-License-Identifier: Apache-2.0
"""``--perf-client``: who sent the load is in the record, and runs of two clients are strangers."""

from pathlib import Path
from typing import Any

import pytest

from tests.plugin.projects import Project

ONE = ("-k", "last and ttft_p50")


def _clients(document: dict[str, Any]) -> set[str]:
    return {
        cell["environment"]["workload"]["client"]
        for cell in document["vllm_perf"]["cells"]
        if cell["workload"] == "chat"
    }


def test_the_record_names_the_client_and_two_clients_are_not_compared(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    assert project.run(*ONE).code == 0
    other = project.run(*ONE, "--perf-client", "openai", "--benchmark-compare")
    first, second = project.records()
    assert _clients(first) == {"socket"}
    (name,) = _clients(second)
    assert name.startswith("openai ")
    assert f"workload.client: socket → {name}" in " ".join(other.text.split())


@pytest.mark.parametrize("given", [("--perf-client", "curl"), ("-o", "perf_client=curl")])
def test_an_unknown_client_is_refused(given: tuple[str, str], tmp_path: Path) -> None:
    finished = Project(tmp_path / "project").run(*ONE, *given)
    assert finished.code == 4
    assert "curl" in finished.text
