# SPDX-License-Identifier: Apache-2.0
"""What a load asks of its own process: no garbage collection in between, enough open files."""

import contextlib
import gc
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_gc() -> Iterator[None]:
    """Keep the garbage collector out of the load: one full pass takes tens of milliseconds."""
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Allow as many open files as the hard limit does, where the load could need them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + 256 if hard == resource.RLIM_INFINITY else min(hard, wanted + 256)
    raised = soft != resource.RLIM_INFINITY and soft < most
    if raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        if raised:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
