# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf golden``: serve the golden engine until a signal, after one JSON line that says where."""

import argparse
import gc
import json
import os
import signal
import threading
import types
from contextlib import suppress
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from vllm_perf.golden import GoldenServer, Noise, Profile, ServerOptions
from vllm_perf.golden.profile import ProfileError, override
from vllm_perf.load.golden_process import WITH_STDIN
from vllm_perf.spec.base import SpecError

GC_THRESHOLD = 200_000
KINDS = {bool: "true or false", int: "whole number", float: "number", str: "text", NoneType: "none"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add one option for each field of the profile, the noise and the server."""
    for group, kind in (("answers", Profile), ("noise", Noise), ("server", ServerOptions)):
        section = parser.add_argument_group(group)
        for field in fields(kind):
            default = "required" if field.default is MISSING else str(field.default).lower()
            flag = f"--{field.name.replace('_', '-')}"
            section.add_argument(flag, metavar="VALUE", help=f"{_kind(field.type)} (default {default})")


def run(args: argparse.Namespace) -> int:
    """Serve in the foreground; SIGTERM and SIGINT end it."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    try:
        server = GoldenServer(
            override(Profile(), _of(given, Profile)),
            override(ServerOptions(), _of(given, ServerOptions)),
            override(Noise(), _of(given, Noise)),
        )
    except (ProfileError, OSError) as error:
        raise SpecError(str(error)) from error

    def stop(_number: int, _frame: types.FrameType | None) -> None:
        server.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if os.environ.get(WITH_STDIN):
        threading.Thread(target=_end_with_stdin, args=(server,), name="stdin", daemon=True).start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    ready = {"ready": True, "port": server.port, "base_url": server.base_url, "model": server.options.model}
    print(json.dumps(ready), flush=True)
    server.serve_forever()
    return 0


def _kind(annotation: Any) -> str:
    """Return what an option takes, in words: ``whole number or none``, ``chunk, finish or none``."""
    is_literal = get_origin(annotation) is Literal
    parts = [str(part) if is_literal else _kind(part) for part in get_args(annotation)]
    if parts:
        return " or ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    return KINDS[annotation]


def _end_with_stdin(server: GoldenServer) -> None:
    """Stop once whoever started this closes its end of the pipe: also when it was killed."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    server.stop()


def _of(given: dict[str, str], kind: type) -> dict[str, str]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in given.items() if name in names}
