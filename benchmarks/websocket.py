"""A publisher's WebSocket line as lean as Python allows: one prepared frame out, answers counted in."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import cast

from benchmarks.load import Tally
from proofs.line import PING, PONG, TEXT, frame, frames, handshake


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
            if kind == PING:
                self._transport.write(frame(payload, PONG))
            elif kind != TEXT or b'"problem"' in payload[:200]:
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
