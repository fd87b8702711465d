# SPDX-License-Identifier: Apache-2.0
"""A process as others know it: its number, and when it was started, since numbers are used again."""

import os
from typing import NamedTuple

import psutil

SAME_START_S = 1.0


class Owner(NamedTuple):
    """A process; ``created`` is seconds since the epoch."""

    pid: int
    created: float

    @classmethod
    def me(cls) -> "Owner":
        """Return this process."""
        return cls(os.getpid(), psutil.Process().create_time())

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """Return the owner that ``str`` wrote, or ``None``."""
        try:
            pid, created = text.split()
            return cls(int(pid), float(created))
        except ValueError:
            return None

    def __str__(self) -> str:
        """Return what ``parse`` reads."""
        return f"{self.pid} {self.created!r}"

    @property
    def lives(self) -> bool:
        """Tell whether this very process still runs; a zombie does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < SAME_START_S
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False
