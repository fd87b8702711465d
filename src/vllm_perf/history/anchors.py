# SPDX-License-Identifier: Apache-2.0
"""Names for runs that stay: what an anchor points at is never pruned and never drifts with the baseline."""

import json
import re
import tomllib
from pathlib import Path

from vllm_perf.history import atomic
from vllm_perf.history.store import StoreError

ANCHORS_NAME = "anchors.toml"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def read_anchors(directory: Path) -> dict[str, str]:
    """Return the anchors of a history directory: name to file.

    Raises:
        StoreError: the file is there and cannot be read; a baseline must not be lost for a typing error.
    """
    path = directory / ANCHORS_NAME
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StoreError(f"{path}: cannot be read: {error}") from error
    anchors = data.get("anchors", {})
    if not isinstance(anchors, dict) or not all(isinstance(file, str) for file in anchors.values()):
        raise StoreError(f'{path}: expected a table [anchors] of name = "file"')
    return anchors


def set_anchor(directory: Path, name: str, file: str) -> None:
    """Let ``name`` point at the run in ``file``.

    Raises:
        StoreError: the name is no letter followed by letters, digits, ``_``, ``-``, or there is no such run.
    """
    if not NAME.fullmatch(name):
        raise StoreError(f"anchor '{name}': a name is a letter, then letters, digits, '_' or '-'")
    if not (directory / file).is_file():
        raise StoreError(f"{directory / file}: no such run")
    _write(directory, {**read_anchors(directory), name: file})


def drop_anchor(directory: Path, name: str) -> None:
    """Forget an anchor; the run stays.

    Raises:
        StoreError: there is none of that name.
    """
    anchors = read_anchors(directory)
    if name not in anchors:
        raise StoreError(f"no anchor '{name}'; there are: {', '.join(sorted(anchors)) or 'none'}")
    _write(directory, {other: file for other, file in anchors.items() if other != name})


def _write(directory: Path, anchors: dict[str, str]) -> None:
    lines = [f"{name} = {json.dumps(file)}" for name, file in sorted(anchors.items())]
    atomic.replace(directory / ANCHORS_NAME, ("[anchors]\n" + "\n".join(lines) + "\n").encode())
