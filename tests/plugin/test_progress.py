# SPDX-License-Identifier: Apache-2.0
"""What is shown while it goes on: in place on a terminal, line by line elsewhere, past pytest's capture."""

import io

from tests.plugin.projects import Project
from vllm_perf.pytest_plugin.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_pipe_gets_whole_lines_and_each_topic_once_in_a_while() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.booting("last", "waiting for the port", 0.1)
    progress.booting("last", "waiting for the port", 0.4)
    progress.loading("last", "chat", 1, 0, 8)
    progress.loading("last", "chat", 1, 3, 8)
    progress.loading("last", "chat", 1, 8, 8)
    assert stream.getvalue().splitlines() == [
        "vllm-perf: booting last: waiting for the port (0 s)",
        "vllm-perf: last under chat, repetition 2: 0 of 8 requests",
        "vllm-perf: last under chat, repetition 2: 8 of 8 requests",
    ]


def test_a_terminal_gets_one_line_that_changes_in_place_below_pytests_own() -> None:
    stream = Terminal()
    progress = Progress(stream)
    progress.loading("last", "chat", 0, 1, 8)
    progress.loading("last", "chat", 0, 2, 8)
    progress.done()
    progress.done()
    clear = "\r\x1b[2K"
    first, second = (f"vllm-perf: last under chat: {done} of 8 requests" for done in (1, 2))
    assert stream.getvalue() == f"\n{first}{clear}{second}{clear}"


def test_a_worker_never_changes_a_line_that_others_write_to() -> None:
    stream = Terminal()
    Progress(stream, plain=True).loading("last", "chat", 0, 8, 8)
    assert stream.getvalue() == "vllm-perf: last under chat: 8 of 8 requests\n"


def test_quiet_says_nothing() -> None:
    stream = io.StringIO()
    progress = Progress(stream, quiet=True)
    progress.say("x")
    progress.booting("last", "x", 1.0)
    assert stream.getvalue() == ""


def test_a_user_sees_it_although_pytest_captures(project: Project) -> None:
    run = project.run_apart("-k", "ttft_p50", "-p", "no:benchmark")
    assert "vllm-perf: booting last: " in run.text
    assert "vllm-perf: last under chat, repetition 3: 8 of 8 requests" in run.text
