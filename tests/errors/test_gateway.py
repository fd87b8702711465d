# SPDX-License-Identifier: Apache-2.0
"""A real gateway as a channel: LiteLLM's proxy in front of the real CPU vLLM, right, wrong and broken."""

import contextlib
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
from fixtures.cores import Cores, on_cores
from fixtures.gateway import Gateway, GatewayRoute, litellm_proxy
from fixtures.relay import delayed
from tests.errors.overheads import Overheads
from vllm_perf.cli import main
from vllm_perf.engine.boot import BootSettings
from vllm_perf.engine.engine import Engine
from vllm_perf.load.golden_process import golden_process
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.scrape import running, scrape
from vllm_perf.load.single import send_one, streamed_body
from vllm_perf.metrics.latency import NS_PER_MS, ttft_ns
from vllm_perf.spec.category import Category
from vllm_perf.spec.channel import find_channel
from vllm_perf.spec.files import EngineBook

pytestmark = pytest.mark.real_engine

MASTER_KEY = "sk-gateway-3f9c2a7d51"
WRONG_KEY = "sk-wrong-8d1e4b6c90"
ENGINE_KEY = "vllm-own-key-77aa31"
KEYS = (MASTER_KEY, WRONG_KEY, ENGINE_KEY)
LOAD = ("--prompt-tokens", "256", "--output-tokens", "16", "--requests", "8", "--warmup-requests", "2")
# One token, one request at a time: while the gateway works the server does nothing, and the other way round.
OVERHEAD_LOAD = (
    *("--prompt-tokens", "64", "--output-tokens", "1"),
    *("--concurrency", "1", "--warmup-requests", "4", "--requests", "5", "--pairs", "16"),
)
PLANTED_S = 0.02
PACE_REQUESTS = 7
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
def cores() -> Iterator[Cores]:
    """Keep gateway and client, which this process is, off the core of whatever serves."""
    cores = Cores.split()
    with on_cores(cores.front):
        yield cores


@pytest.fixture(scope="module")
def engine(book: EngineBook, settings: BootSettings, device: None, cores: Cores) -> Iterator[Engine]:
    """Boot the CPU vLLM with a key of its own, whole on one core."""
    spec = book.engine("cpu-prefix-caching")
    bind = str(min(cores.server))
    own = {**spec.env, "VLLM_API_KEY": ENGINE_KEY, "VLLM_CPU_OMP_THREADS_BIND": bind}
    with on_cores(cores.server):
        engine = Booter(book, settings).boot(spec.model_copy(update={"env": own}))
    yield engine
    engine.stop()


@pytest.fixture(scope="module")
def golden(engine: Engine, cores: Cores) -> Iterator[Target]:
    """Start a golden engine on the vLLM's core, paced like it; like it, it sends nothing before a token."""
    body = streamed_body(engine.target.model, "word " * 50, 1, "chat")
    seen = [send_one(engine.target, body, endpoint="chat", timeout_s=60.0) for _ in range(PACE_REQUESTS)]
    times = sorted(ns / NS_PER_MS for one in seen if (ns := ttft_ns(one)) is not None)
    pace = round(times[len(times) // 2], 1)
    with contextlib.ExitStack() as running:
        with on_cores(cores.server):
            target = running.enter_context(golden_process(role_ms=pace, ttft_ms=pace, itl_ms=6))
        yield target


@pytest.fixture(scope="module")
def lab(engine: Engine, golden: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start LiteLLM with a key in front of the vLLM and of the golden engine."""
    folder = tmp_path_factory.mktemp("gateway")
    model, url = engine.target.model, engine.target.base_url
    with delayed(url, PLANTED_S) as slow:
        routes = [
            GatewayRoute(name=model, base_url=url, model=model, api_key=ENGINE_KEY),
            GatewayRoute(name="limited", base_url=url, model=model, api_key=ENGINE_KEY, requests_per_min=2),
            GatewayRoute(name="locked", base_url=url, model=model, api_key="not-the-engines"),
            GatewayRoute(name="slow", base_url=slow, model=model, api_key=ENGINE_KEY),
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
                + _entry("slow", through, "slow", "MASTER_KEY")
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

    def single(self, command: str, name: str) -> str:
        """Run ``probe`` or ``doctor`` on a channel and return the category it names."""
        spec = find_channel(self._lab.channels, name)
        key = ("--api-key-env", spec.key_env) if spec.key_env else ()
        started_s = time.monotonic()
        code = main([command, "--base-url", spec.base_url, "--model", spec.model, *key, "--json"])
        self.took_s = time.monotonic() - started_s
        seen = self._capsys.readouterr()
        for secret in KEYS:
            assert secret not in seen.out + seen.err
        assert code == 1
        found = json.loads(seen.out)
        assert found["remedy"]
        return str(found["outcome" if command == "probe" else "category"])


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
    """What LiteLLM adds to the vLLM's first token is what it adds to a golden engine's.

    Measured alike, or the difference is the machine's: all four ways in one command, round by round, so that
    whatever the machine does meanwhile meets all; the server on a core of its own, gateway and client on the
    other; the golden engine as slow as the vLLM, and its first chunk (the role) no earlier than its first
    token, as LiteLLM takes most of its time over the first chunk. docs/channels.md has the figures.
    """
    found = _overheads(bench, "litellm")
    assert found.golden.low > 0, found
    assert found.real.low > 0, found
    assert found.agree, found


def test_a_way_behind_the_gateway_that_is_20_ms_slower_does_not_agree(bench: Bench) -> None:
    found = _overheads(bench, "slow")
    assert not found.agree, found


def _overheads(bench: Bench, through: str) -> Overheads:
    names = ("local", through, "golden", "golden-litellm")
    code, document = bench(*names, more=OVERHEAD_LOAD)
    assert code == 0, document["notes"]
    return Overheads.of(document, names)


WRONG_REQUESTS = (
    ("wrong-key", Category.AUTH_WRONG_OR_MISSING_KEY),
    ("no-key", Category.AUTH_WRONG_OR_MISSING_KEY),
    ("locked", Category.AUTH_WRONG_OR_MISSING_KEY),
    ("unknown-model", Category.MODEL_NOT_FOUND),
)


@pytest.mark.parametrize(("name", "category"), WRONG_REQUESTS)
def test_what_is_wrong_with_the_request_is_named_within_seconds(
    bench: Bench, name: str, category: Category
) -> None:
    code, document = bench(name)
    assert code == 1
    assert document["failure"]["category"] == category
    assert document["failure"]["remedy"]
    assert bench.took_s < SECONDS


@pytest.mark.parametrize("command", ["probe", "doctor"])
@pytest.mark.parametrize(("name", "category"), WRONG_REQUESTS)
def test_probe_and_doctor_name_it_as_well(bench: Bench, command: str, name: str, category: Category) -> None:
    assert bench.single(command, name) == category
    assert bench.took_s < SECONDS


def test_the_gateways_own_key_being_wrong_is_told_from_ours(bench: Bench) -> None:
    _, document = bench("locked")
    assert "ours is right" in document["failure"]["remedy"]


def test_a_rate_limit_stops_a_run_that_may_not_wait_that_long(bench: Bench) -> None:
    code, document = bench("limited", more=("--most-wait-s", "5"))
    assert code == 10
    assert document["stopped"]["reason"].startswith("RATE_LIMITED: it asks to wait 60 s")
    assert bench.took_s < SECONDS
    # The gateway lets 2 a minute through, and the bench has just asked for more.
    assert bench.single("probe", "limited") == Category.RATE_LIMITED


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
    for key in KEYS:
        assert key not in repr(cut)
    code, document = bench("litellm")
    assert code == 1
    assert document["failure"]["category"] == Category.UPSTREAM_DOWN_BEHIND_PROXY
    assert bench.took_s < SECONDS
    for command in ("probe", "doctor"):
        assert bench.single(command, "litellm") == Category.UPSTREAM_DOWN_BEHIND_PROXY
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
