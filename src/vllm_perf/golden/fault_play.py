# SPDX-License-Identifier: Apache-2.0
"""Serve a misbehaviour: its bytes at its times, and its end."""

from vllm_perf.golden.fault import Fault
from vllm_perf.golden.reactor import Reactor
from vllm_perf.golden.records import Record
from vllm_perf.golden.render import LAST_CHUNK, chunk, head
from vllm_perf.golden.wire import Connection

NS_PER_MS = 1_000_000


class FaultPlay:
    """One misbehaving answer."""

    def __init__(self, fault: Fault, connection: Connection, record: Record, scale: float) -> None:
        """Wait for ``start``; ``scale`` multiplies every time of the case."""
        self._fault, self._connection, self._record, self._scale = fault, connection, record, scale
        self._next = 0
        self._headed = self._gone = False

    def start(self, reactor: Reactor) -> None:
        """Plan every step."""
        fault = self._fault
        self._connection.on_close = self._leave
        if fault.head_ms is not None:
            reactor.call_at(self._due_ns(fault.head_ms), self._head)
        for step in fault.steps:
            reactor.call_at(self._due_ns(step.at_ms), self._step)
        last_ms = fault.steps[-1].at_ms if fault.steps else 0.0
        if fault.end != "stall":
            reactor.call_at(self._due_ns(fault.end_ms if fault.end_ms is not None else last_ms), self._end)

    def _due_ns(self, at_ms: float) -> int:
        return self._record.received_ns + round(at_ms * self._scale * NS_PER_MS)

    def _leave(self) -> None:
        self._gone = True

    def _head_bytes(self) -> bytes:
        fault, more = self._fault, dict(self._fault.headers)
        self._headed = True
        kind = more.pop("content-type", "")
        if fault.framing == "chunked":
            more["transfer-encoding"] = "chunked"
        elif fault.framing == "length":
            more["content-length"] = str(len(fault.body))
        else:
            more["connection"] = "close"
        return head(fault.status, kind, more) + b"\r\n\r\n"

    def _head(self) -> None:
        if not self._gone:
            self._connection.write(self._head_bytes())

    def _step(self) -> None:
        step = self._fault.steps[self._next]
        self._next += 1
        if self._gone:
            return
        data = chunk(step.data) if self._fault.framing == "chunked" else step.data
        stamp = self._connection.write(data if self._headed else self._head_bytes() + data)
        if step.tokens:
            if step.answer and self._record.answer_index is None:
                self._record.answer_index = len(self._record.sent_ns)
            self._record.sent_ns.append(stamp)
            self._record.tokens.append(step.tokens)

    def _end(self) -> None:
        if self._gone:
            return
        fault, connection = self._fault, self._connection
        if fault.end in ("fin", "reset"):
            self._gone = True
            connection.on_close = None
            connection.close(reset=fault.end == "reset")
            return
        tail = LAST_CHUNK if fault.framing == "chunked" else b""
        tail = tail if self._headed else self._head_bytes() + tail
        if tail:
            connection.write(tail)
        connection.done(close=fault.framing == "close")
