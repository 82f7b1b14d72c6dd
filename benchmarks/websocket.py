"""A publisher's WebSocket line as lean as Python allows: one prepared frame out, answers counted in.

A frame of a client must be masked; with a mask of 0 the payload stays as it is, and nothing has to be computed.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from typing import cast

from benchmarks.load import Tally

PROTOCOL = "layby.v1"
_TEXT, _PING, _PONG = 1, 9, 10
_MASKED, _LAST = 0x80, 0x80


def frame(payload: bytes, kind: int = _TEXT) -> bytes:
    """A whole message of a client."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", _LAST | kind, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _LAST | kind, _MASKED | 126, size)
    else:
        head = struct.pack("!BBQ", _LAST | kind, _MASKED | 127, size)
    return head + bytes(4) + payload


def frames(heard: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Kind and payload of the whole frames of a server in what was heard, and the rest of it."""
    found, at = list[tuple[int, bytes]](), 0
    while len(heard) >= at + 2:
        size, begin = heard[at + 1], at + 2
        if size >= 126:
            begin += 2 if size == 126 else 8
            size = int.from_bytes(heard[at + 2 : begin]) if len(heard) >= begin else len(heard)
        if len(heard) < begin + size:
            break
        found.append((heard[at] & 0x0F, heard[begin : begin + size]))
        at = begin + size
    return found, heard[at:]


def handshake(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: bGF5YnktYmVuY2htYXJrIQ==\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    ).encode()


class _Line(asyncio.Protocol):
    """Keeps so many messages unanswered until the time is over, and then hears the answers that are missing."""

    def __init__(self, path: str, message: bytes, unanswered: int, seconds: float) -> None:
        self._path, self._frame, self._most, self._seconds = path, frame(message), unanswered, seconds
        self.tally, self.done = Tally(), asyncio.get_running_loop().create_future()
        self._heard, self._open, self._unanswered = b"", False, 0
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._transport.write(handshake(self._path))

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if not self._open:
            head, found, self._heard = self._heard.partition(b"\r\n\r\n")
            if not found:
                self._heard = head
            elif not head.startswith(b"HTTP/1.1 101"):
                self._fail(RuntimeError(f"no line: {head + self._heard!r}"))
            else:
                self._open, self._began = True, time.perf_counter()
                self._send(self._most)
            return
        self._answered()

    def _answered(self) -> None:
        answers = 0
        found, self._heard = frames(self._heard)
        for kind, payload in found:
            if kind == _PING:
                self._transport.write(frame(payload, _PONG))
            elif kind != _TEXT or b'"problem"' in payload[:200]:
                self._fail(RuntimeError(f"refused: {payload[:500]!r}"))
            else:
                answers += 1
        self._unanswered -= answers
        self.tally.answers += answers
        if (now := time.perf_counter()) - self._began < self._seconds:
            self._send(answers)
        elif not self._unanswered and not self.done.done():
            self.tally.seconds = now - self._began
            self.done.set_result(None)

    def _send(self, count: int) -> None:
        self._unanswered += count
        self._transport.write(self._frame * count)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server closed the line"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def published(port: int, path: str, message: bytes, unanswered: int, seconds: float) -> Tally:
    """Send one message over and over for so long. Raises RuntimeError where one is refused, OSError where the line is
    cut."""
    line = _Line(path, message, unanswered, seconds)
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: line, "127.0.0.1", port)
    try:
        await line.done
    finally:
        transport.close()
    return line.tally


async def flooded(port: int, path: str, message: bytes, seconds: float) -> int:
    """Send for so long, and read nothing; gives how many messages left before the server took no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    sent, many = 0, frame(message) * 100
    try:
        writer.write(handshake(path))
        await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    writer.write(many)
                    await writer.drain()
                    sent += 100
    finally:
        writer.transport.abort()
    return sent
