"""An engine that answers as a test says, byte by byte, and a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from eventstore.redis_client.node import connect

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def client_of(handler: Handler) -> AsyncGenerator[Any]:
    """A client of an engine that answers as the handler does."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        client = connect(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
        yield client
        await client.aclose()
        await client.connection_pool.disconnect()


async def introduced(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"LIB-VER")  # the last that redis-py sends of itself
    writer.write(b"+OK\r\n" * 2)
