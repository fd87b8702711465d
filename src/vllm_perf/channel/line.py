# SPDX-License-Identifier: Apache-2.0
"""One kept-open connection to a channel for the questions asked before a load: plain ones and streams."""

import http.client
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.keys import key_problem
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.address import parse_address
from vllm_perf.load.answer import BodyEnd, StreamResult
from vllm_perf.load.fetch import tls_context
from vllm_perf.load.sse import Event, SseDecoder
from vllm_perf.load.stream import StreamParser
from vllm_perf.spec.category import Category
from vllm_perf.spec.target import Target

READ_BYTES = 65_536
IDLE_LIMIT_S = 2.0
BROKEN = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One plain answer, read whole; ``elapsed_ns`` from the request's first byte to the body's last."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_ns: int

    @property
    def ok(self) -> bool:
        """Tell whether the status is 2xx."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One streamed answer: what it was in all, and every event as it came.

    ``refusal`` is the diagnosis of an answer that is not 2xx; then there are no events.
    """

    status: int
    headers: Mapping[str, str]
    sent_ns: int
    result: StreamResult
    events: tuple[Event, ...] = ()
    refusal: Diagnosis | None = None


class Broken(Exception):
    """Say that no answer came; ``diagnosis`` names the cause."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.paragraph())
        self.diagnosis = diagnosis


class Line:
    """A connection that is opened at first use, kept open, and opened anew after a longer silence."""

    def __init__(self, target: Target, timeout_s: float = 30.0) -> None:
        """Bind the target; ``timeout_s`` bounds every single request as a whole.

        Raises:
            Broken: the key is of a form that no header may hold.
        """
        self.target = target
        self._timeout_s = timeout_s
        self._address = parse_address(target.base_url)
        problem = key_problem(target.api_key) if target.api_key else None
        if problem:
            raise Broken(
                Diagnosis(
                    category=Category.KEY_MALFORMED,
                    cause=problem,
                    evidence="nothing was sent",
                    remedy="export the key again, without what does not belong to it",
                )
            )
        self._connection = self._make()
        self._used_at_s = time.monotonic()

    def __enter__(self) -> Self:
        """Return the line itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens it anew."""
        self._connection.close()

    def connect(self) -> int:
        """Open the connection if it is not open; return how long that took, in ns (0: it was open).

        Raises:
            Broken: it cannot be opened.
        """
        if self._connection.sock is not None:
            return 0
        started_ns = time.perf_counter_ns()
        try:
            self._connection.connect()
        except BROKEN as error:
            self._connection.close()
            raise self._broken(error, self.target.base_url) from error
        return time.perf_counter_ns() - started_ns

    def get(self, url: str) -> Answer:
        """GET a whole URL of this channel.

        Raises:
            Broken: no answer came in time.
        """
        started_ns, response = self._begin("GET", url, None)
        try:
            body = b"".join(piece for _, piece in self._pieces(response, started_ns))
        except BROKEN as error:
            self._connection.close()
            raise self._broken(error, url) from error
        return Answer(
            status=response.status,
            headers=_headers(response),
            body=body,
            elapsed_ns=time.perf_counter_ns() - started_ns,
        )

    def stream(self, body: bytes, path: str = "/chat/completions") -> Reply:
        """POST a streamed request and read its answer to the end, whatever it is.

        Raises:
            Broken: no status line came; a stream that breaks later is a reply that says so.
        """
        url = self.target.base_url + path
        sent_ns, response = self._begin("POST", url, body)
        headers = _headers(response)
        if not 200 <= response.status < 300:
            return self._refused(response, headers, url, sent_ns)
        parser, decoder = StreamParser(), SseDecoder()
        events: list[Event] = []
        end = BodyEnd.CLEAN
        try:
            for ns, piece in self._pieces(response, sent_ns):
                parser.feed(ns, piece)
                events += decoder.feed(ns, piece)
        except BROKEN as error:
            self._connection.close()
            end = BodyEnd.TIMEOUT if isinstance(error, TimeoutError) else BodyEnd.TRUNCATED
        now_ns = time.perf_counter_ns()
        events += decoder.finish(now_ns)
        result = parser.finish(end, now_ns)
        return Reply(
            status=response.status, headers=headers, sent_ns=sent_ns, result=result, events=tuple(events)
        )

    def _refused(
        self, response: http.client.HTTPResponse, headers: Mapping[str, str], url: str, sent_ns: int
    ) -> Reply:
        try:
            body = b"".join(piece for _, piece in self._pieces(response, sent_ns))
        except BROKEN:
            body = b""
            self._connection.close()
        refusal = self.explain(response.status, headers, body, url)
        result = StreamResult(outcome=refusal.category, status=response.status, detail=refusal.evidence)
        return Reply(status=response.status, headers=headers, sent_ns=sent_ns, result=result, refusal=refusal)

    def explain(self, status: int, headers: Mapping[str, str], body: bytes, url: str) -> Diagnosis:
        """Name what an answer that is not 2xx means."""
        key = self.target.api_key
        return classify_response(
            status,
            headers,
            body,
            url=url,
            key_sent=bool(key),
            model=self.target.model,
            hints=Hints(secrets=(key,) if key else ()),
        )

    def hidden(self, text: str) -> str:
        """Return ``text`` without the key."""
        return redact(text, (self.target.api_key,) if self.target.api_key else ())

    def _begin(self, method: str, url: str, body: bytes | None) -> tuple[int, http.client.HTTPResponse]:
        """Send a request and read the head of its answer. Nothing is ever sent twice: it may cost money.

        A connection that was idle for long is replaced before, as servers close theirs (uvicorn after 5 s).
        """
        if time.monotonic() - self._used_at_s > IDLE_LIMIT_S:
            self._connection.close()
        try:
            return self._send(method, url, body)
        except BROKEN as error:
            self._connection.close()
            raise self._broken(error, url) from error
        finally:
            self._used_at_s = time.monotonic()

    def _send(self, method: str, url: str, body: bytes | None) -> tuple[int, http.client.HTTPResponse]:
        connection = self._connection
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(self._timeout_s)
        address = parse_address(url)
        forwarded = self.target.proxy and not address.tls
        path = f"http://{address.host_header}{address.path}" if forwarded else address.path or "/"
        sent_ns = time.perf_counter_ns()
        connection.request(method, path, body=body, headers=self._request_headers(address.host_header))
        return sent_ns, connection.getresponse()

    def _request_headers(self, host: str) -> dict[str, str]:
        headers = {"Host": host, "Accept-Encoding": "identity", "Content-Type": "application/json"}
        if self.target.api_key:
            headers["Authorization"] = f"Bearer {self.target.api_key}"
        return headers

    def _pieces(self, response: http.client.HTTPResponse, begun_ns: int) -> Iterator[tuple[int, bytes]]:
        """Yield body pieces with their arrival; raise TimeoutError once the whole request is too old."""
        deadline_ns = begun_ns + round(self._timeout_s * 1e9)
        while True:
            left_s = (deadline_ns - time.perf_counter_ns()) / 1e9
            if left_s <= 0:
                raise TimeoutError(f"the answer did not end within {self._timeout_s:g} s")
            if self._connection.sock is not None:
                self._connection.sock.settimeout(left_s)
            piece = response.read1(READ_BYTES)
            if not piece:
                # read1 leaves a response of known length open, and then the next one could not be read.
                response.close()
                self._used_at_s = time.monotonic()
                return
            yield time.perf_counter_ns(), piece

    def _broken(self, error: BaseException, url: str) -> Broken:
        return Broken(classify_exception(error, url=url, env={}, key=self.target.api_key))

    def _make(self) -> http.client.HTTPConnection:
        address, target = self._address, self.target
        hop = parse_address(target.proxy, what="proxy") if target.proxy else address
        if not address.tls:
            return http.client.HTTPConnection(hop.host, hop.port, timeout=self._timeout_s)
        secure = http.client.HTTPSConnection(
            hop.host, hop.port, timeout=self._timeout_s, context=tls_context(target)
        )
        if target.proxy:
            secure.set_tunnel(address.host, address.port)
        return secure


def _headers(response: http.client.HTTPResponse) -> dict[str, Any]:
    return {name.lower(): value for name, value in response.getheaders()}
