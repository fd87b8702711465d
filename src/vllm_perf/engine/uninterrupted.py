# SPDX-License-Identifier: Apache-2.0
"""Hold Ctrl-C and SIGTERM back for the moment in which a started process is in nobody's hands yet."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

HELD = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let what is inside run to its end; a signal that came meanwhile is raised when it is through.

    Use it inside the ``try`` that cleans up: the signal is raised at the end of the ``with``. Outside the
    main thread, where Python delivers no signal, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before: dict[int, Any] = {
        number: signal.signal(number, lambda got, _frame: came.append(got)) for number in HELD
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: a handler that was not set from Python, which Python cannot set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for number in came:
            signal.raise_signal(number)
