# SPDX-License-Identifier: Apache-2.0
"""Boot one engine from its data: model, command, process, readiness, proof; or fail with the root cause."""

import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.command import (
    build_command,
    build_environment,
    resolve_weights,
    scrubbed,
    server_key,
)
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import BootFailed
from vllm_perf.engine.http import ask
from vllm_perf.engine.install import Install, find_install, golden_install
from vllm_perf.engine.model_folder import write_model
from vllm_perf.engine.process import EngineProcess, free_port, new_token
from vllm_perf.engine.proof import prove
from vllm_perf.engine.readiness import (
    Died,
    ForeignServer,
    KeyRefused,
    ReadyTimes,
    TooLate,
    wait_until_ready,
)
from vllm_perf.engine.uninterrupted import uninterrupted
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook
from vllm_perf.spec.target import Target


class Progress(Protocol):
    """Where a boot reports how far it is."""

    def __call__(self, engine: str, step: str, elapsed_s: float) -> None:
        """Show one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSettings:
    """Where models and logs go, and whether a model that is not here may be downloaded."""

    model_cache: Path
    log_dir: Path
    download: bool = False
    stop_patience_s: float = 8.0


def boot(spec: EngineSpec, book: EngineBook, settings: BootSettings, progress: Progress) -> Engine:
    """Boot ``spec`` and return it ready and proven.

    A port that somebody took in the meantime costs one more try, with another port. Whatever goes wrong,
    Ctrl-C included, nothing is left running.

    Raises:
        BootFailed: it died, hung or met a foreign server; the diagnosis holds the root cause.
        NotAsAsked: it runs something else than asked.
        LabError: no vLLM in the interpreter.
    """
    try:
        return _boot_once(spec, book, settings, progress)
    except BootFailed as error:
        if error.diagnosis.category is not Category.PORT_IN_USE or "port" in spec.flags:
            raise
        progress(spec.name, "its port was taken: trying another", 0.0)
        return _boot_once(spec, book, settings, progress)


def _boot_once(spec: EngineSpec, book: EngineBook, settings: BootSettings, progress: Progress) -> Engine:
    golden = spec.platform == "golden"
    install = golden_install() if golden else find_install(spec.python)
    model, random_weights = (spec.model, False) if golden else _model(spec, book, settings)
    process: EngineProcess | None = None
    try:
        with uninterrupted():
            process = _start(spec, install, model=model, random_weights=random_weights, settings=settings)
        ready = _wait(spec, process, install, progress)
        engine = _describe(spec, process, ready, install)
        engine.random_weights = random_weights
        prove(engine, process.log_text())
    except BaseException:
        if process is not None:
            process.stop(settings.stop_patience_s)
        raise
    return engine


def _model(spec: EngineSpec, book: EngineBook, settings: BootSettings) -> tuple[str, bool]:
    """Return what vLLM is told to load, and whether its weights are random.

    Weights at hand win; a model whose shape the book knows is written on the fly; anything else (or any
    model, when downloading is allowed) is vLLM's to resolve.
    """
    local = resolve_weights(spec.model)
    if local is not None:
        return (str(local) if Path(spec.model).expanduser().exists() else spec.model), False
    shape = book.models.get(spec.model)
    if shape is None or (settings.download and "/" in spec.model):
        return spec.model, False
    return str(write_model(shape, settings.model_cache, spec.model)), True


def _start(
    spec: EngineSpec, install: Install, *, model: str, random_weights: bool, settings: BootSettings
) -> EngineProcess:
    port = free_port()
    argv = build_command(spec, install, model=model, port=port, random_weights=random_weights)
    env = build_environment(spec, new_token(), os.environ)
    log_path = settings.log_dir / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}-{port}.log"
    return EngineProcess.start(spec.name, argv, env, port=port, log_path=log_path)


def _wait(spec: EngineSpec, process: EngineProcess, install: Install, progress: Progress) -> ReadyTimes:
    def show(step: str, elapsed_s: float) -> None:
        progress(spec.name, _phase(process.log_text(last_bytes=4096)) or step, elapsed_s)

    try:
        return wait_until_ready(
            process,
            spec.model_id,
            key=server_key(spec),
            timeout_s=spec.boot_timeout_s,
            progress=show,
        )
    except (Died, TooLate, ForeignServer, KeyRefused) as error:
        title = f"engine '{spec.name}' did not boot: {error}"
        if isinstance(error, KeyRefused):
            found = replace(_refused(error, server_key(spec)), log_path=str(process.log_path))
            raise BootFailed(title, found) from error
        raise BootFailed(title, _diagnose(process, install, error)) from error


def _refused(error: KeyRefused, key: str | None) -> Diagnosis:
    """Explain a server that refuses the key of its own data: a variable or a file gave it another one."""
    answer = error.answer
    hints = Hints(keyless_server=key is None, secrets=(key,) if key else ())
    return classify_response(
        answer.status or 0,
        dict(answer.headers),
        answer.body,
        url=error.url,
        key_sent=key is not None,
        hints=hints,
    )


def _diagnose(process: EngineProcess, install: Install, error: Exception) -> Diagnosis:
    log = process.log_text()
    found = classify_boot(
        log,
        exit_code=error.exit_code if isinstance(error, Died) else None,
        argv=process.argv,
        elapsed_s=getattr(error, "elapsed_s", None),
        alive=not isinstance(error, Died),
        vllm_version=install.version,
    )
    if isinstance(error, ForeignServer):
        found = Diagnosis(
            category=Category.PORT_IN_USE,
            cause="another process answers on the port that the engine was given",
            evidence=str(error),
            remedy="end that process or let the suite choose a port (leave port out of the engine's flags)",
        )
    if found is None:
        found = Diagnosis(
            category=Category.BOOT_TIMEOUT if isinstance(error, TooLate) else Category.UNKNOWN,
            cause="the engine ended or hung without naming an error",
            evidence=_last_line(log) or "its log is empty",
            remedy="read the whole log; boot the same command by hand",
        )
    return replace(found, log_path=str(process.log_path))


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _describe(spec: EngineSpec, process: EngineProcess, ready: ReadyTimes, install: Install) -> Engine:
    root = f"http://127.0.0.1:{process.port}"
    models = ask(f"{root}/v1/models", key=server_key(spec)).json() or {}
    served: dict[str, Any] = next(
        (item for item in models.get("data", []) if item.get("id") == spec.model_id), {}
    )
    kept_out = scrubbed(os.environ)
    return Engine(
        spec=spec,
        target=Target(base_url=f"{root}/v1", model=spec.model_id, api_key=server_key(spec), name=spec.name),
        warnings=(f"kept from the engine: {', '.join(kept_out)}",) if kept_out else (),
        argv=process.argv,
        vllm_version=install.version,
        torch_version=install.torch,
        max_model_len=served.get("max_model_len"),
        log_path=str(process.log_path),
        process=process,
        ready=ready,
    )


PHASES: tuple[tuple[str, str], ...] = (
    (r"Application startup complete", "opening the port"),
    (r"Available routes", "opening the port"),
    (r"Capturing CUDA graph|Graph capturing", "capturing CUDA graphs"),
    (r"torch\.compile|Compiling", "compiling"),
    (r"KV cache size", "warming up"),
    (r"Loading weights|load model|Loading safetensors", "loading the model"),
    (r"Initializing a V1 LLM engine|Initializing an LLM engine", "starting the engine core"),
    (r"non-default args|version ", "reading the model's configuration"),
)


def _phase(log: str) -> str | None:
    """Return what a booting engine is at, from the last lines of its log."""
    positions = [(match.start(), words) for pattern, words in PHASES for match in re.finditer(pattern, log)]
    return max(positions)[1] if positions else None
