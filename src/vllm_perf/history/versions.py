# SPDX-License-Identifier: Apache-2.0
"""Ask the Python that runs an engine which vLLM, torch and CUDA it has, without importing any of them."""

import json
import subprocess
import sys
from dataclasses import dataclass

TIMEOUT_S = 30.0
# Both packages keep their version in a file that needs nothing else; importing torch takes seconds.
_SCRIPT = """
import importlib.util, json, pathlib, platform, runpy
def read(package, file):
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = pathlib.Path(list(spec.submodule_search_locations)[0], file)
    return runpy.run_path(str(path)) if path.is_file() else {}
vllm, torch = read("vllm", "_version.py"), read("torch", "version.py")
print(json.dumps({"vllm_version": vllm.get("__version__"), "vllm_commit": vllm.get("__commit_id__"),
    "torch_version": torch.get("__version__"), "cuda_version": torch.get("cuda"),
    "python_version": platform.python_version()}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What is installed beside one Python; ``note`` says why nothing is known."""

    vllm_version: str | None = None
    vllm_commit: str | None = None
    torch_version: str | None = None
    cuda_version: str | None = None
    python_version: str | None = None
    note: str | None = None


def probe_versions(python: str | None = None) -> Versions:
    """Return the versions installed for ``python`` (this one by default); never raises."""
    try:
        done = subprocess.run(
            [python or sys.executable, "-I", "-c", _SCRIPT],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            return Versions(note=f"{python or sys.executable}: {lines[-1] if lines else 'no answer'}")
        return Versions(**json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError) as error:
        return Versions(note=f"{python or sys.executable}: {error}")
