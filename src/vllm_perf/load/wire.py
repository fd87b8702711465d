# SPDX-License-Identifier: Apache-2.0
"""An open connection: bytes in with their kernel stamp, bytes out, with or without TLS."""

import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from vllm_perf.clock import ANCILLARY_BYTES, Ancillary

READ_BYTES = 65_536
Received = tuple[bytes, Ancillary]
Read = Callable[[], Received]


class Wire(Protocol):
    """What the loop needs of a connection."""

    sock: socket.socket
    read: Read

    def write(self, data: bytes) -> bool:
        """Send ``data``; return whether all of it went. What did not is kept for ``flush``."""
        ...

    def flush(self) -> bool:
        """Send what was kept; return whether nothing is left."""
        ...


def reader(sock: socket.socket, buffer: bytearray) -> Read:
    """Return a call that reads once; it raises ``BlockingIOError`` where there is nothing.

    Reading into a buffer and copying matters: bytes that recv shrinks from 64 KiB to a chunk's size each keep
    a page of their own, which made 50,000 unread chunks 200 MB.
    """
    view, buffers, receive = memoryview(buffer), [buffer], sock.recvmsg_into

    def read() -> Received:
        size, ancillary, _, _ = receive(buffers, ANCILLARY_BYTES)
        return view[:size].tobytes(), ancillary

    return read


class PlainWire:
    """A TCP connection as it is; ``read`` raises ``BlockingIOError`` where there is nothing."""

    __slots__ = ("_send", "_unsent", "read", "sock")

    def __init__(self, sock: socket.socket, buffer: bytearray) -> None:
        """Take over a connected, non-blocking socket; ``buffer`` may be shared by all of a process."""
        self.sock = sock
        self.read = reader(sock, buffer)
        self._send = sock.send
        self._unsent = b""

    def write(self, data: bytes) -> bool:
        """Send ``data``; return whether all of it went."""
        try:
            sent = self._send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._unsent += data[sent:]
        return False

    def flush(self) -> bool:
        """Send what was kept; return whether nothing is left."""
        data, self._unsent = self._unsent, b""
        return not data or self.write(data)


class TlsWire:
    """TLS over memory buffers, so that the socket below still gives kernel stamps.

    A stamp belongs to the last TCP segment read: records decrypted from one read share it.
    """

    __slots__ = ("_incoming", "_outgoing", "_plain", "_tls", "read", "sock")

    def __init__(self, sock: socket.socket, buffer: bytearray, context: ssl.SSLContext, host: str) -> None:
        """Prepare a handshake on a connected, non-blocking socket."""
        self.sock = sock
        self.read: Read = self._read
        self._plain = PlainWire(sock, buffer)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def shake_hands(self) -> bool:
        """Go on with the handshake; return whether it is done. False: bytes from the server are needed.

        Raises:
            ssl.SSLError: the other side does not speak TLS, or its certificate is not trusted.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._plain.write(self._outgoing.read())
        return True

    def take_in(self) -> None:
        """Read the socket once into the TLS buffer; raises ``BlockingIOError`` where nothing is there."""
        data = self._plain.read()[0]
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def write(self, data: bytes) -> bool:
        """Encrypt and send ``data``; return whether all of it went."""
        self._tls.write(data)
        return self.flush()

    def flush(self) -> bool:
        """Send what was kept; return whether nothing is left."""
        return self._plain.flush() and (
            not self._outgoing.pending or self._plain.write(self._outgoing.read())
        )

    def _read(self) -> Received:
        """Read once and decrypt all that is complete; raises ``BlockingIOError`` before a whole record."""
        data, ancillary = self._plain.read()
        if not data:
            return b"", []
        self._incoming.write(data)
        plain, closed = self._records()
        if not plain and not closed:
            raise BlockingIOError
        return plain, ancillary

    def _records(self) -> tuple[bytes, bool]:
        records: list[bytes] = []
        try:
            while record := self._tls.read(READ_BYTES):
                records.append(record)
        except ssl.SSLWantReadError:
            return b"".join(records), False
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(records), True
