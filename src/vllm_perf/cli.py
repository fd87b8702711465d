# SPDX-License-Identifier: Apache-2.0
"""The ``vllm-perf`` command: a table of subcommands, of which only the one asked for is imported."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from vllm_perf import __version__
from vllm_perf.spec.base import SpecError

PIPE_CLOSED = 141  # as a shell tells of a program that SIGPIPE ended
COMMANDS = {
    "probe": "send one streamed chat request and print what it measured",
    "doctor": "find the first thing wrong with a server, a boot log or a client's settings",
    "bench": "run a load test against a server and print its numbers",
    "compare": "compare two stored runs",
    "history": "list, show, prune stored runs and find change points",
    "gate": "decide whether head is slower than base, from interleaved runs",
    "golden": "serve the golden engine: an OpenAI-compatible server with known timing",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (2 for a usage error)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="vllm-perf", description=__doc__)
    parser.add_argument("--version", action="version", version=f"vllm-perf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if arguments[:1] == [name]:
            importlib.import_module(f"vllm_perf.commands.{name}").configure(command)
    options = parser.parse_args(arguments)
    try:
        code: int = importlib.import_module(f"vllm_perf.commands.{options.command}").run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads (head, less) has seen enough; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except SpecError as error:
        print(f"vllm-perf {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"vllm-perf {options.command}: interrupted", file=sys.stderr)
        return 130
    return code


if __name__ == "__main__":
    raise SystemExit(main())
