# SPDX-License-Identifier: Apache-2.0
"""A cancelled CI job ends a session as Ctrl-C does."""

import signal
import threading
from typing import Any


def end_on_sigterm() -> Any:
    """Let SIGTERM (a cancelled CI job) end the session as Ctrl-C does, so that no engine is left behind.

    Return what it did before; ``None`` where it stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt("SIGTERM")
