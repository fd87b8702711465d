# SPDX-License-Identifier: Apache-2.0
"""Say what is going on while it goes on: which engine boots and for how long, how many requests are done.

A terminal gets one line that changes in place; a pipe gets a line every few seconds.
"""

import sys
import time
from typing import TextIO

EVERY_S = 10.0


class Progress:
    """Write to the real stderr: pytest captures everything else while a test runs."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        """Choose the stream; ``quiet`` says nothing at all (another process reports)."""
        self.stream = stream if stream is not None else sys.__stderr__
        self.quiet = quiet or self.stream is None
        self.live = not self.quiet and self.stream is not None and self.stream.isatty()
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
        if self.quiet:
            return
        self._end_line()
        self._write(f"vllm-perf: {text}\n")

    def done(self) -> None:
        """End the line that changes in place, before someone else writes."""
        self._end_line()

    def _show(self, topic: str, text: str, *, always: bool = False) -> None:
        if self.quiet:
            return
        if self.live:
            self._write(f"\r\x1b[2Kvllm-perf: {text}")
            self._open_line = True
            return
        now = time.monotonic()
        last_topic, last_s = self._last
        if always or topic != last_topic or now - last_s >= EVERY_S:
            self._write(f"vllm-perf: {text}\n")
            self._last = (topic, now)

    def _end_line(self) -> None:
        if self._open_line:
            self._write("\r\x1b[2K")
            self._open_line = False

    def _write(self, text: str) -> None:
        if self.stream is not None:
            self.stream.write(text)
            self.stream.flush()
