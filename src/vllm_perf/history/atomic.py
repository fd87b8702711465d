# SPDX-License-Identifier: Apache-2.0
"""Write a file so that every reader sees all of it or none, and so that it outlives a power cut."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_new(path: Path, data: bytes) -> None:
    """Create ``path``; a file that is there already is left alone.

    Raises:
        FileExistsError: ``path`` exists.
        OSError: it cannot be written; nothing is left behind.
    """
    temporary = _written(path, data)
    try:
        os.link(temporary, path)  # unlike a rename, refuses to replace
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(str(path)) from None
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Write ``path`` anew.

    Raises:
        OSError: it cannot be written; the old content stays.
    """
    temporary = _written(path, data)
    try:
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _written(path: Path, data: bytes) -> Path:
    """Write a temporary file beside ``path``; its name ends so that nobody takes it for a record."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _sync_directory(directory: Path) -> None:
    with suppress(OSError):  # some file systems cannot sync a directory; the file itself is synced
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
