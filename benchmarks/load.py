"""Load over HTTP/1.1: connections that each have one request under way, as cheap for the machine as Python allows.

The client shares the machine with what it measures, so that its own work counts against every side alike; and the less
of it there is, the less do the sides look the same because of it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END = b"\r\n\r\n"


def post(path: str, body: bytes, kind: str = "application/json", headers: str = "") -> bytes:
    """A whole request. Lines of `headers` end with CRLF."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{headers}\r\n".encode() + body


def get(path: str, headers: str = "") -> bytes:
    """A whole request. Lines of `headers` end with CRLF."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()


@dataclass(slots=True)
class Tally:
    """What came of a load: answers, the time of each in seconds, and how long it all took."""

    answers: int = 0
    seconds: float = 0.0
    taken: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds


class _Closed(asyncio.Protocol):
    """One connection in a closed loop: the next request leaves when the answer is here."""

    def __init__(self, request: bytes, tally: Tally, over: Callable[[], bool], done: asyncio.Future[None]) -> None:
        self._request, self._tally, self._over, self._done = request, tally, over, done
        self._heard = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._heard = self._heard + data if self._heard else data
        if (size := whole(self._heard)) is None:
            return
        if not self._heard.startswith((b"HTTP/1.1 20", b"HTTP/1.0 20")):
            self._fail(RuntimeError(f"refused: {self._heard[:500]!r}"))
            return
        self._heard = self._heard[size:]
        self._tally.answers += 1
        self._tally.taken.append(time.perf_counter() - self._sent)
        if not self._over():
            self._send()
        elif not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def whole(heard: bytes) -> int | None:
    """The length of the first whole answer in what was heard, None if there is none yet."""
    end = heard.find(_END)
    if end < 0:
        return None
    length = _LENGTH.search(heard, 0, end + 2)
    size = end + len(_END) + (int(length[1]) if length else 0)
    return size if len(heard) >= size else None


async def closed_loop(ports: Sequence[int], requests: Sequence[bytes], seconds: float) -> Tally:
    """One connection for each request, to these ports in turn, each repeating its own for so long.

    Raises RuntimeError at an answer that is no success, OSError where a connection is lost.
    """
    loop, tally = asyncio.get_running_loop(), Tally()
    until = time.perf_counter() + seconds
    waits, transports = list[asyncio.Future[None]](), list[asyncio.BaseTransport]()
    began = time.perf_counter()
    try:
        for number, request in enumerate(requests):
            done = loop.create_future()
            waits.append(done)
            closed = _Closed(request, tally, lambda: time.perf_counter() >= until, done)
            transport, _ = await loop.create_connection(lambda c=closed: c, "127.0.0.1", ports[number % len(ports)])
            transports.append(transport)
        await asyncio.gather(*waits)
        tally.seconds = time.perf_counter() - began
    finally:
        for transport in transports:
            transport.close()
    return tally
