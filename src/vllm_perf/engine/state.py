# SPDX-License-Identifier: Apache-2.0
"""Where this user's engines leave their marks: locks, and notes of what is running now."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from vllm_perf.diagnosis.redact import Redactor
from vllm_perf.engine.kept_log import redact_file
from vllm_perf.engine.tree import end_tree


def state_folder() -> Path:
    """Return the per-user folder for locks and live notes; shared by every checkout on this host."""
    base = os.environ.get("VLLM_PERF_STATE_DIR")
    folder = Path(base) if base else Path.home() / ".cache" / "vllm-perf"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveNote:
    """A running engine, or one about to run: its mark and the session that owns it.

    ``group`` is in notes of earlier versions only.
    """

    token: str
    engine: str
    port: int
    owner_pid: int
    owner_created: float
    log_path: str
    group: int = 0

    @property
    def path(self) -> Path:
        """Return the file that holds this note."""
        return state_folder() / "live" / f"{self.token}.json"

    def write(self) -> None:
        """Leave the note, so that a later session can clean up after a killed one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: another session takes a note that it cannot read for a dead writer's.
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(self.path)

    def remove(self) -> None:
        """Take the note away: the engine is gone."""
        self.path.unlink(missing_ok=True)

    @property
    def owner_lives(self) -> bool:
        """Tell whether the session that booted this engine still runs."""
        try:
            return abs(psutil.Process(self.owner_pid).create_time() - self.owner_created) < 1.0
        except psutil.NoSuchProcess:
            return False


def live_notes() -> tuple[LiveNote, ...]:
    """Return every readable note; an unreadable one is removed (its writer died while writing)."""
    notes = []
    for path in sorted((state_folder() / "live").glob("*.json")):
        try:
            notes.append(LiveNote(**json.loads(path.read_text())))
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
        except OSError:
            continue
    return tuple(notes)


def sweep_orphans() -> tuple[str, ...]:
    """End every engine whose session is gone (``kill -9``); return a sentence for each, to be shown."""
    said = []
    for note in live_notes():
        if note.owner_lives:
            continue
        ended = end_tree(note.token, group=None, patience_s=2.0)
        # Its key is not known here: what looks like a credential is taken out all the same.
        redact_file(Path(note.log_path), Redactor())
        note.remove()
        forced = f"; {len(ended)} of its processes had to be killed" if ended else ""
        said.append(
            f"cleaned up engine '{note.engine}' (port {note.port}), left behind by session {note.owner_pid} "
            f"that no longer runs{forced}"
        )
    return tuple(said)
