# SPDX-License-Identifier: Apache-2.0
"""Which request is answered how: vLLM's endpoints, the engine's own record, and misbehaviour on demand."""

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from vllm_perf.golden.engine import Engine
from vllm_perf.golden.fault import Fault
from vllm_perf.golden.fault_play import FaultPlay
from vllm_perf.golden.faults import FAULTS
from vllm_perf.golden.job import JobError, profile_of, prompt_of, read_body, read_job
from vllm_perf.golden.profile import Profile
from vllm_perf.golden.records import Record
from vllm_perf.golden.render import dumps, error_body, whole
from vllm_perf.golden.tokenizer import Tokenizer
from vllm_perf.golden.wire import Connection, Request
from vllm_perf.spec.comparison import GOLDEN_MARK

GENERATION = ("/v1/chat/completions", "/v1/completions")
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NOT_FOUND = b'{"detail":"Not Found"}'
WRONG_METHOD = b'{"detail":"Method Not Allowed"}'
UNAUTHORIZED = b'{"error":"Unauthorized"}'
JSON = "application/json"
VERSION = f"0.32.0{GOLDEN_MARK}"

Plain = tuple[int, bytes, str]


class Router:
    """Answer requests with one engine's help; ``number`` counts them."""

    def __init__(self, engine: Engine, profile: Profile) -> None:
        """Use ``profile`` where a request does not ask for another."""
        self._engine, self._profile = engine, profile
        self._tokenizer = Tokenizer()
        self.number = 0
        self._born_s = int(time.time())
        self._routes: dict[tuple[str, str], Callable[[Request], Plain]] = {
            ("GET", "/health"): self._health,
            ("GET", "/ping"): self._health,
            ("GET", "/version"): self._version,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
            ("POST", "/tokenize"): self._tokenize,
            ("POST", "/detokenize"): self._detokenize,
            ("POST", "/reset_prefix_cache"): self._reset_cache,
            ("GET", "/golden/records"): self._records,
            ("GET", "/golden/record"): self._record,
            ("POST", "/golden/clear"): self._clear,
        }

    def handle(self, connection: Connection, request: Request) -> None:
        """Answer ``request``, now or over time."""
        self.number += 1
        try:
            self._dispatch(connection, *_split_wishes(request))
        except JobError as error:
            body = error_body(error.status, error.message, error.kind, error.param)
            self._answer(connection, error.status, body)

    def _dispatch(self, connection: Connection, request: Request, wishes: dict[str, Any]) -> None:
        profile = profile_of(self._profile, request, wishes)
        fault = self._fault(profile, request)
        if fault is not None:
            record = Record(id=self._id(request), received_ns=request.received_ns, fault=fault.id)
            self._engine.records.add(record)
            FaultPlay(fault, connection, record, profile.time_scale).start(self._engine.reactor)
        elif not self._allowed(request):
            self._answer(connection, 401, UNAUTHORIZED)
        elif request.path in GENERATION and request.method == "POST":
            job = read_job(request, self._engine.options, self._tokenizer, profile, self.number)
            self._engine.submit(job, connection)
        else:
            self._answer(connection, *self._plain(request))

    def _fault(self, profile: Profile, request: Request) -> Fault | None:
        if profile.fault is None:
            return None
        fault = FAULTS.get(profile.fault)
        if fault is None:
            raise JobError(400, f"golden: no fault '{profile.fault}'; known: {', '.join(FAULTS)}")
        posted = request.method == "POST"
        applies = {
            "generation": posted and request.path.endswith("/completions"),
            "v1": request.path.startswith("/v1"),
            "metrics": request.path == "/metrics",
            "all": not request.path.startswith("/golden"),
        }
        return fault if applies[fault.scope] else None

    def _id(self, request: Request) -> str:
        return request.headers.get("x-request-id") or f"golden-{self.number}"

    def _allowed(self, request: Request) -> bool:
        key = self._engine.options.api_key
        if key is None or request.method == "OPTIONS" or not request.path.startswith(GUARDED):
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and token == key

    def _answer(
        self, connection: Connection, status: int, body: bytes, kind: str = "application/json"
    ) -> None:
        connection.write(whole(status, body, kind))
        connection.done()

    def _plain(self, request: Request) -> Plain:
        route = self._routes.get((request.method, request.path))
        if route is not None:
            return route(request)
        known = any(path == request.path for _, path in self._routes) or request.path in GENERATION
        return (405, WRONG_METHOD, JSON) if known else (404, NOT_FOUND, JSON)

    def _health(self, _request: Request) -> Plain:
        return 200, b"", JSON

    def _version(self, _request: Request) -> Plain:
        return 200, dumps({"version": VERSION}), JSON

    def _metrics(self, _request: Request) -> Plain:
        return 200, self._engine.counters.render(), METRICS_TYPE

    def _reset_cache(self, _request: Request) -> Plain:
        self._engine.cache.clear()
        return 200, b"", JSON

    def _detokenize(self, request: Request) -> Plain:
        tokens = read_body(request).get("tokens") or []
        return 200, dumps({"prompt": self._tokenizer.decode(tokens)}), JSON

    def _records(self, _request: Request) -> Plain:
        return 200, self._engine.records.dump(), "application/jsonl"

    def _record(self, request: Request) -> Plain:
        record = self._engine.records.get(request.query.get("id", ""))
        return (200, dumps(record.to_json()), JSON) if record else (404, NOT_FOUND, JSON)

    def _clear(self, _request: Request) -> Plain:
        self._engine.records.clear()
        return 200, b"", JSON

    def _models(self, _request: Request) -> Plain:
        options = self._engine.options
        card = {"id": options.model, "object": "model", "created": self._born_s, "owned_by": "vllm"}
        more: dict[str, Any] = {
            "root": options.model,
            "parent": None,
            "max_model_len": options.max_model_len,
            "permission": [],
        }
        return 200, dumps({"object": "list", "data": [{**card, **more}]}), JSON

    def _tokenize(self, request: Request) -> Plain:
        body = read_body(request)
        tokens = prompt_of(body, self._tokenizer, "messages" in body)
        limit = self._engine.options.max_model_len
        value = {"count": len(tokens), "max_model_len": limit, "tokens": tokens, "token_strs": None}
        return 200, dumps(value), JSON


def _split_wishes(request: Request) -> tuple[Request, dict[str, Any]]:
    # ``/golden/ttft_ms=200,fault=H17/v1`` as base URL lets any OpenAI client ask for what it cannot send.
    parts = request.path.split("/", 3)
    if len(parts) != 4 or parts[1] != "golden" or "=" not in parts[2]:
        return request, {}
    wishes = dict(item.split("=", 1) for item in unquote(parts[2]).split(",") if "=" in item)
    bare = Request(
        method=request.method,
        path=f"/{parts[3]}",
        query=request.query,
        headers=request.headers,
        body=request.body,
        received_ns=request.received_ns,
    )
    return bare, wishes
