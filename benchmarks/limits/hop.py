"""A bare hop: from just before one client sends XADD until another, blocked in XREAD, has the entry.

No decision, no rule, no HTTP: what the engine and redis-py take alone. Both clients are in this process, as Layby's
publisher and reader are in theirs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from benchmarks.stored import LINE
from proofs.engines import EngineClient

SETTLING_S = 0.005
"""Before each hop, of every side: the reader waits by then."""


class Hop:
    """A stream, who writes to it, and who reads it."""

    def __init__(self, engine_url: str) -> None:
        self._writer, self._reader = _client(engine_url), _client(engine_url)
        self._last = b"0-0"

    async def times(self, count: int) -> list[float]:
        """So many hops one after another, in milliseconds."""
        return [await self._one() for _ in range(count)]

    async def _one(self) -> float:
        reading = asyncio.create_task(self._read())
        await asyncio.sleep(SETTLING_S)
        sent = time.perf_counter()
        await self._writer.xadd("bench:hop", {"e": LINE, "h": "0" * 64})
        return (await reading - sent) * 1000

    async def _read(self) -> float:
        [[_, [[self._last, _]]]] = await self._reader.xread({"bench:hop": self._last}, block=30_000)
        return time.perf_counter()

    async def close(self) -> None:
        await self._writer.aclose()
        await self._reader.aclose()


def _client(engine_url: str) -> EngineClient:
    return Redis.from_url(engine_url, protocol=2)  # pyright: ignore[reportUnknownMemberType]  # options without types


@asynccontextmanager
async def hop(engine_url: str) -> AsyncGenerator[Hop]:
    """On an engine that has had none yet. Its connections are closed when the block is left."""
    one = Hop(engine_url)
    try:
        await one.times(1)  # connects
        yield one
    finally:
        await one.close()
