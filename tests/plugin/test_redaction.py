# SPDX-License-Identifier: Apache-2.0
"""A key given by --perf-api-key-env is in nothing that is written or said."""

import pytest

from tests.plugin.projects import Project
from tests.plugin.servers import golden_process

KEY = "sk-planted-0123456789abcdef0123456789"


@pytest.mark.parametrize("server_key", [KEY, "another"], ids=["accepted", "refused"])
def test_the_key_appears_nowhere(project: Project, server_key: str) -> None:
    project.env["PLANTED_KEY"] = KEY
    html, markdown = project.root / "out.html", project.root / "out.md"
    with golden_process(api_key=server_key, ttft_ms=30, itl_ms=10) as target:
        run = project.run(
            *("--perf-base-url", target.base_url, "--perf-model", target.model),
            *("--perf-api-key-env", "PLANTED_KEY", "--benchmark-compare", "-vv", "--showlocals"),
            *(f"--perf-html={html}", f"--perf-markdown={markdown}", "--benchmark-json=out.json"),
            golden=False,
        )
    assert run.code == (0 if server_key == KEY else 11), run.text
    assert KEY not in run.text
    holders = [
        path for path in project.root.rglob("*") if path.is_file() and KEY in path.read_text("latin-1")
    ]
    assert holders == []
    written = {path.name for path in project.root.rglob("*") if path.is_file()}
    assert {"out.html", "out.md"} <= written
    assert ("out.json" in written) == (server_key == KEY)
