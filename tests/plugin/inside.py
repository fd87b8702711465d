# SPDX-License-Identifier: Apache-2.0
"""Run pytest within pytest: what is loaded stays loaded, which saves two seconds a run."""

import contextlib
import functools
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import pytest
import pytest_benchmark.plugin

# Loaded once, before the first inner run takes its snapshot: numpy cannot be loaded twice.
import vllm_perf.pytest_plugin.controller
import vllm_perf.pytest_plugin.judge  # noqa: F401
from vllm_perf.load import floor
from vllm_perf.metrics import validity_client

# What the client itself adds is the same in every run here, and takes a second to measure.
KNOWN_FLOOR = functools.cache(floor._try)
# pytest-benchmark asks for the CPU's name several times a run, a second each.
KNOWN_CPU = functools.cache(pytest_benchmark.plugin.get_cpu_info)


def run_inside(words: Sequence[str], root: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Return exit code and output of ``pytest WORDS``, run in ``root`` with ``env`` on top."""
    with (
        _as_before(root, env),
        _remembered(),
        warnings.catch_warnings(record=True),
        _caught() as output,
    ):
        warnings.resetwarnings()
        code = _main(words)
        output.seek(0)
        return code, output.read()


def _main(words: Sequence[str]) -> int:
    """Return the exit code; a plugin's own exception ends pytest as it would end the interpreter."""
    try:
        return int(pytest.main(list(words)))
    except Exception:  # noqa: BLE001  whatever a plugin raises
        traceback.print_exc()
        return 1


@contextlib.contextmanager
def _remembered() -> Iterator[None]:
    """Spare an inner run what an earlier one found out; tests outside it see nothing of that.

    Nor of what a project's own conftest.py does to our modules, which outlive its run.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floor, "_try", KNOWN_FLOOR)
        patch.setattr(pytest_benchmark.plugin, "get_cpu_info", KNOWN_CPU)
        for name in ("LATE_SHARE_OF_TTFT", "BURST_SHARE"):
            patch.setattr(validity_client, name, getattr(validity_client, name))
        yield


@contextlib.contextmanager
def _as_before(root: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Undo afterwards what a pytest does to its process."""
    modules, path, finders, environ = dict(sys.modules), list(sys.path), list(sys.meta_path), dict(os.environ)
    folder = Path.cwd()
    try:
        os.environ.pop("PYTEST_XDIST_WORKER", None)  # of the session we are in, not of the one inside
        os.environ.update(env)
        os.chdir(root)
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        sys.modules.clear()
        sys.modules.update(modules)
        sys.path[:], sys.meta_path[:] = path, finders


@contextlib.contextmanager
def _caught() -> Iterator[TextIO]:
    """Collect what is written; progress goes to the real stderr, past pytest's own capture."""
    real = sys.__stderr__
    with (
        tempfile.TemporaryFile("w+") as output,  # a real file: faulthandler asks for its number
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        sys.__stderr__ = output  # type: ignore[misc]
        try:
            yield output
        finally:
            sys.__stderr__ = real  # type: ignore[misc]
