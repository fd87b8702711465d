# SPDX-License-Identifier: Apache-2.0
"""A real gateway as a channel: LiteLLM's proxy in front of the real CPU vLLM, right, wrong and broken."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.booting import Booter
from fixtures.gateway import Gateway, GatewayRoute, litellm_proxy
from vllm_perf.cli import main
from vllm_perf.engine.boot import BootSettings
from vllm_perf.engine.engine import Engine
from vllm_perf.load.golden_process import golden_process
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.scrape import running, scrape
from vllm_perf.load.single import send_one, streamed_body
from vllm_perf.spec.category import Category
from vllm_perf.spec.files import EngineBook

pytestmark = pytest.mark.real_engine

MASTER_KEY = "sk-gateway-3f9c2a7d51"
WRONG_KEY = "sk-wrong-8d1e4b6c90"
ENGINE_KEY = "vllm-own-key-77aa31"
KEYS = (MASTER_KEY, WRONG_KEY, ENGINE_KEY)
LOAD = ("--prompt-tokens", "256", "--output-tokens", "16", "--requests", "8", "--warmup-requests", "2")
# Each of these failures is named after at most a few requests; this is for a machine that does other things.
SECONDS = 20.0
RUNNING_DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A vLLM, a gateway in front of it and of a golden engine, and the channels file that lists all ways."""

    engine: Engine
    gateway: Gateway
    channels: Path
    folder: Path


@pytest.fixture(scope="module")
def engine(book: EngineBook, settings: BootSettings, device: None) -> Iterator[Engine]:
    """Boot the CPU vLLM with a key of its own, on one core: the gateway and the client need the other."""
    spec = book.engine("cpu-prefix-caching")
    core = str(min(os.sched_getaffinity(0)))
    own = {**spec.env, "VLLM_API_KEY": ENGINE_KEY, "VLLM_CPU_OMP_THREADS_BIND": core}
    engine = Booter(book, settings).boot(spec.model_copy(update={"env": own}))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def lab(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start LiteLLM with a key in front of the vLLM and of a golden engine."""
    folder = tmp_path_factory.mktemp("gateway")
    model, url = engine.target.model, engine.target.base_url
    with golden_process(ttft_ms=50, itl_ms=5) as golden:
        routes = [
            GatewayRoute(name=model, base_url=url, model=model, api_key=ENGINE_KEY),
            GatewayRoute(name="limited", base_url=url, model=model, api_key=ENGINE_KEY, requests_per_min=2),
            GatewayRoute(name="locked", base_url=url, model=model, api_key="not-the-engines"),
            GatewayRoute(name="golden", base_url=golden.base_url, model="golden"),
        ]
        with litellm_proxy(routes, key=MASTER_KEY, folder=folder) as gateway:
            channels = folder / "channels.toml"
            through = gateway.base_url
            channels.write_text(
                _entry("local", url, model, "ENGINE_KEY")
                + _entry("litellm", through, model, "MASTER_KEY")
                + _entry("wrong-key", through, model, "WRONG_KEY")
                + _entry("no-key", through, model, None)
                + _entry("unknown-model", through, "no-such-model", "MASTER_KEY")
                + _entry("limited", through, "limited", "MASTER_KEY")
                + _entry("locked", through, "locked", "MASTER_KEY")
                + _entry("golden", golden.base_url, "golden", None)
                + _entry("golden-litellm", through, "golden", "MASTER_KEY"),
                encoding="utf-8",
            )
            yield Lab(engine=engine, gateway=gateway, channels=channels, folder=folder)


def _entry(name: str, url: str, model: str, variable: str | None) -> str:
    key = "" if variable is None else f'key_env = "{variable}"\n'
    return f'[channels.{name}]\nbase_url = "{url}"\nmodel = "{model}"\n{key}'


class Bench:
    """Run ``vllm-perf bench --channel …`` and keep an eye on every key."""

    def __init__(self, lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
        self._lab = lab
        self._capsys = capsys
        self.took_s = 0.0

    def __call__(self, *names: str, more: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
        """Return exit code and document; no key may show in any output."""
        words = [word for name in names for word in ("--channel", name)]
        store = self._lab.folder / "store"
        started_s = time.monotonic()
        where = ("--channels-file", str(self._lab.channels), "--store", str(store))
        code = main(["bench", *words, *where, "--json", *LOAD, *more])
        self.took_s = time.monotonic() - started_s
        seen = self._capsys.readouterr()
        stored = max(store.iterdir(), key=lambda path: path.stat().st_mtime_ns).read_text(encoding="utf-8")
        for key in KEYS:
            assert key not in seen.out + seen.err + stored
        document: dict[str, Any] = json.loads(seen.out)
        return code, document


@pytest.fixture
def bench(lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return the command, with the keys in its environment."""
    for name, key in (("MASTER_KEY", MASTER_KEY), ("WRONG_KEY", WRONG_KEY), ("ENGINE_KEY", ENGINE_KEY)):
        monkeypatch.setenv(name, key)
    return Bench(lab, capsys)


def test_the_handshake_finds_what_the_gateway_passes_on_and_what_it_keeps(bench: Bench) -> None:
    code, document = bench("local", "litellm", more=("--pairs", "1"))
    assert code == 0, document["notes"]
    local, litellm = (document["channels"][name]["handshake"] for name in ("local", "litellm"))
    for fact in ("usage", "stream_options", "pins_length", "seed", "max_tokens"):
        assert (local[fact], litellm[fact]) == (True, True), fact
    assert (local["metrics"], litellm["metrics"]) == (True, False)
    assert litellm["tokens_per_chunk"] == pytest.approx(local["tokens_per_chunk"], rel=0.1)
    hits = next(one for one in document["metrics"] if one["metric"] == "prefix_hit_rate")
    assert hits["against"][0]["reason"] == "litellm shows no /metrics"
    assert hits["values"]["litellm"]["value"] is None


def test_the_same_prompts_through_the_gateway_are_no_hits_in_the_vllms_cache(bench: Bench) -> None:
    _, document = bench("litellm", "local", more=("--pairs", "2"))
    assert document["channels"]["local"]["prompt_cache"]["caches"] is True
    hits = next(one for one in document["metrics"] if one["metric"] == "prefix_hit_rate")
    assert hits["values"]["local"]["value"] == pytest.approx(0.0, abs=0.02)


def test_the_gateways_overhead_is_found_and_agrees_with_the_golden_engines(bench: Bench) -> None:
    code, real = bench("local", "litellm", more=("--pairs", "6"))
    assert code == 0, real["notes"]
    code, golden = bench("golden", "golden-litellm", more=("--pairs", "6"))
    assert code == 0, golden["notes"]
    # End to end: the one time that holds even where a starved server bunches its chunks up.
    ours, truth = (_rest(document, "e2el_p50") for document in (real, golden))
    assert truth["low"] > 0, truth
    assert ours["high"] > 0, ours
    assert ours["low"] <= truth["high"], (ours, truth)
    assert truth["low"] <= ours["high"], (ours, truth)


def _rest(document: dict[str, Any], metric: str) -> dict[str, float]:
    """Return what is left of the second channel's difference without the network."""
    row = next(one for one in document["metrics"] if one["metric"] == metric)
    against = row["against"][0]
    assert against["comparable"], against["reason"]
    rest: dict[str, float] = against["rest"]
    return rest


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("wrong-key", Category.AUTH_WRONG_OR_MISSING_KEY),
        ("no-key", Category.AUTH_WRONG_OR_MISSING_KEY),
        ("locked", Category.AUTH_WRONG_OR_MISSING_KEY),
        ("unknown-model", Category.MODEL_NOT_FOUND),
    ],
)
def test_what_is_wrong_with_the_request_is_named_within_seconds(
    bench: Bench, name: str, category: Category
) -> None:
    code, document = bench(name)
    assert code == 1
    assert document["failure"]["category"] == category
    assert document["failure"]["remedy"]
    assert bench.took_s < SECONDS


def test_the_gateways_own_key_being_wrong_is_told_from_ours(bench: Bench) -> None:
    _, document = bench("locked")
    assert "ours is right" in document["failure"]["remedy"]


def test_a_rate_limit_stops_a_run_that_may_not_wait_that_long(bench: Bench) -> None:
    code, document = bench("limited", more=("--most-wait-s", "5"))
    assert code == 10
    assert document["stopped"]["reason"].startswith("RATE_LIMITED: it asks to wait 60 s")
    assert bench.took_s < SECONDS


def test_vllm_killed_behind_the_gateway_is_named_for_the_stream_it_cut_and_for_the_next_request(
    bench: Bench, lab: Lab
) -> None:
    """Comes last: nothing serves after it."""
    through = Target(base_url=lab.gateway.base_url, model=lab.engine.target.model, api_key=MASTER_KEY)
    cut = _cut_by_killing(lab.engine, replace(through, name="litellm"))
    assert cut.outcome in (
        Category.IN_BAND_ERROR,
        Category.TRUNCATED_STREAM,
        Category.UPSTREAM_DOWN_BEHIND_PROXY,
    ), cut
    assert MASTER_KEY not in repr(cut)
    code, document = bench("litellm")
    assert code == 1
    assert document["failure"]["category"] == Category.UPSTREAM_DOWN_BEHIND_PROXY
    assert bench.took_s < SECONDS


def _cut_by_killing(engine: Engine, target: Target) -> RequestSample:
    """Start a long stream, kill the vLLM once it runs it, and return what became of the stream."""
    body = streamed_body(target.model, "Count on.", 1500, "chat")
    samples: list[RequestSample] = []
    thread = threading.Thread(
        target=lambda: samples.append(send_one(target, body, endpoint="chat", timeout_s=60.0))
    )
    thread.start()
    deadline = time.monotonic() + RUNNING_DEADLINE_S
    while not running(scrape(engine.target) or {}):
        assert time.monotonic() < deadline, "the stream never reached the vLLM"
    assert engine.process is not None
    os.killpg(engine.process.popen.pid, signal.SIGKILL)
    thread.join()
    return samples[0]
