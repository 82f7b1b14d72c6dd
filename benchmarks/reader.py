"""A reader of a live stream that does nothing but look for a word: what the time of an event's arrival is taken on."""

from __future__ import annotations

import asyncio
import time
from typing import Self, cast

from benchmarks.load import get

PATIENCE_S = 30.0
SSE = "Accept: text/event-stream\r\n"


class Reader(asyncio.Protocol):
    """One open stream."""

    def __init__(self) -> None:
        self._rest = b""
        self._word = b""
        self._found: asyncio.Future[float] | None = None

    @classmethod
    async def of(cls, port: int, path: str, first: bytes = b"HTTP/1.1 200", headers: str = SSE) -> tuple[Self, float]:
        """A reader that has got as far as this word, and the seconds that took from its request on.

        Raises OSError where the connection is lost, TimeoutError where the word does not come.
        """
        transport, made = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        found, sent = made.listen(first), time.perf_counter()
        transport.write(get(path, headers))
        return made, await asyncio.wait_for(found, PATIENCE_S) - sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def listen(self, word: bytes) -> asyncio.Future[float]:
        """When this word, which has not come yet, is here."""
        self._word, self._found = word, asyncio.get_running_loop().create_future()
        return self._found

    def data_received(self, data: bytes) -> None:
        now, heard = time.perf_counter(), self._rest + data
        if self._found and not self._found.done() and self._word in heard:
            self._found.set_result(now)
        self._rest = heard[1 - len(self._word) :]  # a word may come in two parts

    def connection_lost(self, exc: Exception | None) -> None:
        if self._found and not self._found.done():
            self._found.set_exception(exc or ConnectionResetError("the stream has ended"))

    def close(self) -> None:
        self._transport.close()


async def heard(waits: list[asyncio.Future[float]]) -> list[float]:
    """When each of them heard its word. Raises TimeoutError, OSError."""
    return await asyncio.wait_for(asyncio.gather(*waits), PATIENCE_S)
