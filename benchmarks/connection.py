"""One kept-alive connection with one request under way: what the time of a single answer is taken on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Self, cast

from benchmarks.load import whole

PATIENCE_S = 70.0


@dataclass(frozen=True, slots=True)
class Heard:
    """A whole answer, head and body as they came; when its request left and when it was here, in seconds."""

    text: bytes
    sent: float
    at: float

    @property
    def status(self) -> int:
        return int(self.text[9:12])

    @property
    def ms(self) -> float:
        return (self.at - self.sent) * 1000


class Connection(asyncio.Protocol):
    """The time is taken where the bytes leave and arrive, so that what else this process does counts as little as it
    can."""

    def __init__(self) -> None:
        self._heard = b""
        self._sent = 0.0
        self._answer: asyncio.Future[Heard] | None = None

    @classmethod
    async def to(cls, port: int) -> Self:
        """Raises OSError where nobody listens."""
        _, made = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    async def ask(self, request: bytes, *refusals: int) -> Heard:
        """Raises RuntimeError at an answer that is neither a success nor one of these refusals, OSError where the
        connection is lost, TimeoutError."""
        self._answer = asyncio.get_running_loop().create_future()
        self._sent = time.perf_counter()
        self._transport.write(request)
        heard = await asyncio.wait_for(self._answer, PATIENCE_S)
        if heard.status >= 300 and heard.status not in refusals:
            raise RuntimeError(f"refused: {heard.text[:500]!r}")
        return heard

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._heard += data
        size = whole(self._heard)
        if size is not None and self._answer and not self._answer.done():
            self._answer.set_result(Heard(self._heard[:size], self._sent, now))
            self._heard = self._heard[size:]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()
