# SPDX-License-Identifier: Apache-2.0
"""The doctor's walk through a server: the first thing wrong is named, and nothing after it is asked."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from vllm_perf.doctor.patient import Patient
from vllm_perf.doctor.server import Checkup, examine
from vllm_perf.spec.category import Category

KEY = "tstKEY-4711-marked"
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
ROLE = {
    **CHUNK,
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
}
TOKEN = {**CHUNK, "choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "length"}]}
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a "
    "chat template"
)


def sse(*events: Any) -> bytes:
    return (
        b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    )


@dataclass
class Fake:
    """A server with vLLM's manners; ``chat`` is what it answers to a chat request: status and body."""

    key: str | None = None
    is_vllm: bool = True
    health: int = 200
    models: Any = ("m",)
    models_status: int = 200
    chat: tuple[int, bytes] = (200, sse(ROLE, TOKEN))
    holds_chat_until: threading.Event | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if path == "/version" and self.is_vllm:
            return 200, b'{"version": "0.32.0"}'
        if path == "/health" and self.is_vllm:
            return self.health, b""
        if path.startswith("/v1/") and self.key is not None and authorization != f"Bearer {self.key}":
            return 401, b'{"error":"Unauthorized"}'
        if path == "/v1/models":
            data = [{"id": name, "object": "model", "max_model_len": 2048} for name in self.models]
            return self.models_status, json.dumps({"object": "list", "data": data}).encode()
        if path == "/v1/chat/completions":
            if self.holds_chat_until is not None:
                self.holds_chat_until.wait()
            return self.chat
        return 404, b'{"detail":"Not Found"}'


Serve = Callable[[Fake], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve fakes on free loopback ports; returns the root of each."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread, Fake]] = []

    def start(fake: Fake) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = fake.answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                kind = "text/event-stream" if body.startswith(b"data:") else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread, fake))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, thread, fake in running:
        if fake.holds_chat_until is not None:
            fake.holds_chat_until.set()
        server.shutdown()
        thread.join()
        server.server_close()


def look(base_url: str, model: str = "m", **known: Any) -> Checkup:
    found = examine(Patient(base_url=base_url, model=model, **known))
    assert "4711" not in found.diagnosis.paragraph()
    return found


def test_healthy_server_passes_with_what_was_checked(serve: Serve) -> None:
    found = look(serve(Fake(key=KEY)) + "/v1", key=KEY)
    assert found.healthy
    assert "vLLM 0.32.0 serves m, max_model_len 2048" in found.diagnosis.cause
    assert [text.split(":")[0] for text in found.passed] == ["alive", "key and URL", "parameters"]


def test_closed_port_is_a_server_that_is_down() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    assert look(url).diagnosis.category is Category.SERVER_DOWN


def test_engine_that_vllm_says_is_dead_ends_the_walk(serve: Serve) -> None:
    fake = Fake(health=503)
    assert look(serve(fake) + "/v1").diagnosis.category is Category.ENGINE_DIED
    assert fake.asked == ["/version", "/health"]


@pytest.mark.parametrize(
    ("ending", "category"),
    [
        ("", Category.BASE_URL_MISSING_V1),
        ("/v1/chat/completions", Category.BASE_URL_HAS_ENDPOINT),
        ("/v1/v1", Category.BASE_URL_HAS_ENDPOINT),
        ("/v1 ", Category.BASE_URL_INVALID),
    ],
)
def test_wrong_base_url_is_corrected(serve: Serve, ending: str, category: Category) -> None:
    root = serve(Fake())
    found = look(root + ending).diagnosis
    assert found.category is category
    assert found.remedy == f"use {root}/v1"


def test_missing_v1_is_confirmed_by_asking_where_the_api_ought_to_be(serve: Serve) -> None:
    root = serve(Fake(key=KEY))
    assert f"{root}/v1/models answered 401, so that is where the API is" in look(root).diagnosis.evidence


def test_url_without_v1_that_leads_to_the_models_is_right(serve: Serve) -> None:
    class Rootless(Fake):
        def answer(self, path: str, authorization: str) -> tuple[int, bytes]:
            return super().answer(
                f"/v1{path}" if path.startswith(("/models", "/chat")) else path, authorization
            )

    assert look(serve(Rootless(is_vllm=False)) + "/api").diagnosis.category is not Category.OK
    assert look(serve(Rootless(is_vllm=False))).healthy


def test_https_to_a_plain_server(serve: Serve) -> None:
    root = serve(Fake())
    found = look(root.replace("http:", "https:") + "/v1").diagnosis
    assert found.category is Category.SCHEME_MISMATCH
    assert f"{root}/v1" in found.remedy


@pytest.mark.parametrize("key", [None, "wrong-key"])
def test_wrong_or_missing_key(serve: Serve, key: str | None) -> None:
    found = look(serve(Fake(key=KEY)) + "/v1", key=key)
    assert found.diagnosis.category is Category.AUTH_WRONG_OR_MISSING_KEY
    assert ("no key was sent" in found.diagnosis.cause) is (key is None)


@pytest.mark.parametrize("key", [KEY + "\n", "", f" {KEY}"])
def test_malformed_key_is_found_before_it_is_sent(serve: Serve, key: str) -> None:
    fake = Fake(key=KEY)
    assert look(serve(fake) + "/v1", key=key).diagnosis.category is Category.KEY_MALFORMED
    assert "/v1/models" not in fake.asked


def test_misspelt_model_is_corrected_without_asking_for_a_token(serve: Serve) -> None:
    fake = Fake(models=("qwen2.5-7b-instruct", "other"))
    found = look(serve(fake) + "/v1", model="Qwen2.5-7B-Instrukt").diagnosis
    assert found.category is Category.MODEL_NOT_FOUND
    assert found.remedy == "ask for 'qwen2.5-7b-instruct'"
    assert "/v1/chat/completions" not in fake.asked


def test_channel_may_serve_a_model_that_it_does_not_list(serve: Serve) -> None:
    assert look(serve(Fake(is_vllm=False, models=("other",))) + "/v1").healthy


def test_channel_without_a_list_of_models_is_asked_for_a_token(serve: Serve) -> None:
    fake = Fake(is_vllm=False, models_status=404)
    assert look(serve(fake) + "/v1").healthy
    assert fake.asked[-1] == "/v1/chat/completions"


def error(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


CHATS: dict[str, tuple[tuple[int, bytes], Category]] = {
    "H08": ((400, error(NO_TEMPLATE, type="BadRequestError")), Category.CHAT_TEMPLATE_MISSING),
    "context": (
        (
            400,
            error("This model's maximum context length is 4 tokens. However, your prompt has 9 input tokens"),
        ),
        Category.CONTEXT_OVERFLOW,
    ),
    "rate": ((429, error("slow down")), Category.RATE_LIMITED),
    "H10": ((200, error("upstream overloaded", type="server_error")), Category.IN_BAND_ERROR),
    "H17": (
        (200, sse(ROLE, {"error": {"message": "boom", "type": "InternalServerError"}})),
        Category.IN_BAND_ERROR,
    ),
    "H18": ((200, sse(ROLE, {"object": "error", "message": "boom", "type": "X"})), Category.IN_BAND_ERROR),
    "H19": ((200, sse(None)), Category.NULL_EVENT),
    "H20": ((200, sse()), Category.NO_TOKEN),
    "no finish": ((200, sse(ROLE)), Category.NO_FINISH_REASON),
    "dead engine": ((500, error("EngineCore encountered an issue.", code=500)), Category.ENGINE_DIED),
}


@pytest.mark.parametrize(("chat", "category"), CHATS.values(), ids=CHATS.keys())
def test_failing_token_gets_its_category(serve: Serve, chat: tuple[int, bytes], category: Category) -> None:
    assert look(serve(Fake(chat=chat)) + "/v1").diagnosis.category is category


def test_h79_engine_that_hangs_behind_a_healthy_api_is_stalled(serve: Serve) -> None:
    found = look(serve(Fake(holds_chat_until=threading.Event())) + "/v1", timeout_s=0.2).diagnosis
    assert found.category is Category.ENGINE_STALLED
    assert "although /health" in found.cause


def test_token_that_does_not_come_from_a_channel_is_only_a_timeout(serve: Serve) -> None:
    fake = Fake(is_vllm=False, holds_chat_until=threading.Event())
    assert look(serve(fake) + "/v1", timeout_s=0.2).diagnosis.category is Category.TIMEOUT


ENVIRONMENTS: dict[str, tuple[dict[str, str], bool, Category]] = {
    "H84": ({"HTTP_PROXY": "http://127.0.0.1:9"}, True, Category.PROXY_INTERCEPT),
    "H85": ({"HTTP_PROXY": "http://127.0.0.1:9"}, False, Category.LOCAL_PROXY_FAILED),
    "H85 with localhost alone": (
        {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost"},
        False,
        Category.LOCAL_PROXY_FAILED,
    ),
    "H85 https alone": ({"HTTPS_PROXY": "http://127.0.0.1:9"}, False, Category.OK),
    "excluded": ({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}, False, Category.OK),
    "H86": ({"NO_PROXY": "localhost,[::1]"}, True, Category.PROXY_ENV_INVALID),
    "H87": ({"ALL_PROXY": "socks://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}, True, Category.PROXY_ENV_INVALID),
}


@pytest.mark.parametrize(("env", "proxy_lives", "category"), ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_proxy_variables_are_found_although_the_doctor_goes_around_them(
    serve: Serve, env: dict[str, str], proxy_lives: bool, category: Category
) -> None:
    root = serve(Fake())
    found = look(root + "/v1", env=env, connect=lambda host, port: proxy_lives).diagnosis
    assert found.category is category
