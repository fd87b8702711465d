# SPDX-License-Identifier: Apache-2.0
"""Keep credentials out of the log that a server leaves behind, whatever its vLLM printed into it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from vllm_perf.diagnosis.boot_context import read_argv
from vllm_perf.diagnosis.redact import Redactor, looks_secret
from vllm_perf.engine.command import OWNER_VARIABLE


def secrets_of(argv: Sequence[str], env: Mapping[str, str]) -> Redactor:
    """Return a redactor that knows every credential a server is started with."""
    # The engine's mark only sounds like a credential: it has to stay readable to be found.
    given = {name: value for name, value in env.items() if name != OWNER_VARIABLE}
    asked = (value for name, value in read_argv(argv).items() if looks_secret(name))
    return Redactor.of_environment(given).knowing(*asked)


def redact_file(path: Path, redact: Redactor) -> None:
    """Take the credentials out of a log that nobody writes to any more; a clean one is left as it is."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        clean = redact(text)
        if clean != text:
            path.write_bytes(clean.encode("utf-8", "surrogateescape"))
    except OSError:
        return  # a log that cannot be read or written shows nothing either
