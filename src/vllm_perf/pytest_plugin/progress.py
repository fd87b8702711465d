# SPDX-License-Identifier: Apache-2.0
"""Say what is going on while it goes on: which engine boots and for how long, how many requests are done.

A terminal gets one line that changes in place; a pipe gets a line every few seconds.
"""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

EVERY_S = 10.0
CLEAR = "\r\x1b[2K"


class Progress:
    """Write to the real stderr, also while a test runs and pytest captures everything that is written.

    ``uncaptured`` is a context in which that stream leads outside (pytest puts a file in its place, below
    Python). ``quiet`` says nothing at all, ``plain`` changes no line in place: others write there too.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        quiet: bool = False,
        plain: bool = False,
        uncaptured: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Choose the stream; by default the process's own stderr."""
        self.stream = stream if stream is not None else sys.__stderr__
        self.quiet = quiet or self.stream is None
        self._uncaptured = uncaptured
        with uncaptured():
            self.live = not plain and self.stream is not None and self.stream.isatty()
        self._last: tuple[str, float] = ("", 0.0)
        self._open_line = False

    def booting(self, engine: str, step: str, elapsed_s: float) -> None:
        """Show how far a boot is."""
        self._show(f"boot {engine}", f"booting {engine}: {step} ({elapsed_s:.0f} s)")

    def loading(self, engine: str, workload: str, repetition: int, done: int, total: int) -> None:
        """Show how many requests of a repetition are done."""
        again = f", repetition {repetition + 1}" if repetition else ""
        text = f"{engine} under {workload}{again}: {done} of {total} requests"
        self._show(f"load {engine} {workload} {repetition}", text, always=done == total)

    def say(self, text: str) -> None:
        """Show one lasting line."""
        if not self.quiet:
            self.done()
            self._write(f"vllm-perf: {text}\n")

    def done(self) -> None:
        """Take the line that changes in place away, before someone else writes."""
        if self._open_line:
            self._write(CLEAR)
            self._open_line = False

    def _show(self, topic: str, text: str, *, always: bool = False) -> None:
        if self.quiet:
            return
        if self.live:
            # A line of its own: pytest's, with the name of the file and its dots, is left as it is.
            self._write(f"{CLEAR if self._open_line else chr(10)}vllm-perf: {text}")
            self._open_line = True
            return
        now = time.monotonic()
        last_topic, last_s = self._last
        if always or topic != last_topic or now - last_s >= EVERY_S:
            self._write(f"vllm-perf: {text}\n")
            self._last = (topic, now)

    def _write(self, text: str) -> None:
        if self.stream is not None:
            with self._uncaptured():
                self.stream.write(text)
                self.stream.flush()
