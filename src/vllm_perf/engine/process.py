# SPDX-License-Identifier: Apache-2.0
"""One vLLM server as a process tree of our own: started in its own session, logged to a file, ended whole."""

import os
import secrets
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from vllm_perf.diagnosis.redact import Redactor
from vllm_perf.engine.command import OWNER_VARIABLE
from vllm_perf.engine.kept_log import redact_file, secrets_of
from vllm_perf.engine.state import LiveNote
from vllm_perf.engine.tree import alive, descendants, end_tree


def free_port() -> int:
    """Return a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def new_token() -> str:
    """Return the mark that one engine's processes carry."""
    return secrets.token_hex(8)


@dataclass(slots=True, kw_only=True)
class EngineProcess:
    """A started server. ``seen`` collects its descendants while it lives: some outlive their parent.

    ``redact`` knows every credential that the server was given: what is read of its log is clean at any time,
    the log itself once the server has ended.
    """

    name: str
    argv: tuple[str, ...]
    token: str
    port: int
    log_path: Path
    popen: subprocess.Popen[bytes]
    redact: Redactor = field(default_factory=Redactor)
    seen: set[psutil.Process] = field(default_factory=set)

    @classmethod
    def start(
        cls, name: str, argv: Sequence[str], env: Mapping[str, str], *, port: int, log_path: Path
    ) -> "EngineProcess":
        """Start ``argv``; all output goes to ``log_path``, never to a pipe that could fill up.

        The note is written first: a session that is killed at any moment leaves no process without one.

        Raises:
            OSError: the interpreter cannot be run.
        """
        log_path.parent.mkdir(parents=True, exist_ok=True)
        note = _note(name, env[OWNER_VARIABLE], port, log_path)
        note.write()
        try:
            with log_path.open("wb") as log:
                popen = subprocess.Popen(
                    list(argv),
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError:
            note.remove()
            raise
        return cls(
            name=name,
            argv=tuple(argv),
            token=note.token,
            port=port,
            log_path=log_path,
            popen=popen,
            redact=secrets_of(argv, env),
        )

    def note(self) -> LiveNote:
        """Return the note that lets a later session clean up after this one."""
        return _note(self.name, self.token, self.port, self.log_path)

    def look(self) -> int | None:
        """Record the descendants; return the exit code, or ``None`` while the server runs."""
        self.seen |= descendants(self.popen.pid)
        return self.popen.poll()

    def dead_parts(self) -> tuple[int, ...]:
        """Return the pids of recorded descendants that have died while the server itself still runs."""
        return tuple(sorted(process.pid for process in self.seen if not alive(process)))

    @property
    def pids(self) -> frozenset[int]:
        """Return the pids of the tree that are alive now."""
        self.look()
        return frozenset(process.pid for process in self.seen if alive(process))

    def log_text(self, last_bytes: int | None = None) -> str:
        """Return the log so far, or its last bytes, without any credential."""
        try:
            data = self.log_path.read_bytes()
        except OSError:
            return ""
        return self.redact((data if last_bytes is None else data[-last_bytes:]).decode("utf-8", "replace"))

    def stop(self, patience_s: float = 8.0) -> tuple[int, ...]:
        """End the whole tree, clean the log, remove the note; return the pids that had to be killed."""
        self.look()
        killed = end_tree(self.token, group=self.popen.pid, known=self.seen, patience_s=patience_s)
        self.popen.wait(timeout=10)
        redact_file(self.log_path, self.redact)
        self.note().remove()
        return killed


def _note(name: str, token: str, port: int, log_path: Path) -> LiveNote:
    return LiveNote(
        token=token,
        engine=name,
        port=port,
        owner_pid=os.getpid(),
        owner_created=psutil.Process().create_time(),
        log_path=str(log_path),
    )
