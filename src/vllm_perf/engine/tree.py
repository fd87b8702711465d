# SPDX-License-Identifier: Apache-2.0
"""Find and end whole process trees, also when their root is gone already."""

import os
import signal
import time
from collections.abc import Iterable

import psutil

from vllm_perf.engine.command import OWNER_VARIABLE

GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)


def alive(process: psutil.Process) -> bool:
    """Tell whether a process still runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def descendants(pid: int) -> set[psutil.Process]:
    """Return a process and everything below it; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return {root, *root.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def marked(token: str) -> set[psutil.Process]:
    """Return every process that carries an engine's token in its environment.

    EngineCore outlives an API server that was killed: it has another parent then, but still the mark.
    """
    found = set()
    for process in psutil.process_iter():
        try:
            if process.environ().get(OWNER_VARIABLE) == token:
                found.add(process)
        except (psutil.Error, OSError):
            continue
    return found


def end_tree(
    token: str, *, group: int | None, known: Iterable[psutil.Process] = (), patience_s: float = 8.0
) -> tuple[int, ...]:
    """End a marked tree: TERM to its group, wait, then KILL what is left; return the pids that needed KILL.

    ``known`` are descendants recorded earlier (a process may have cleared its environment since).
    """
    targets = marked(token) | {process for process in known if alive(process)}
    if group is not None:
        _signal_group(group, signal.SIGTERM)
    for process in targets:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        targets = {process for process in targets | marked(token) if alive(process)}
        if not targets:
            return ()
        time.sleep(0.05)
    killed = tuple(sorted(process.pid for process in targets))
    if group is not None:
        _signal_group(group, signal.SIGKILL)
    for process in targets | marked(token):
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(list(targets), timeout=5)
    return killed


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except GONE:
        return


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def port_owners(port: int) -> set[int]:
    """Return the pids that listen on a TCP port of this host (those that may be looked at)."""
    owners = set()
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port:
            owners.add(connection.pid or -1)
    return owners
