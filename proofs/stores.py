"""A store without its background work, opened as an offline command would."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from eventstore.event_store import EventStore, open_store
from eventstore.redis_client.client import RedisClient
from eventstore.settings import load_settings


@asynccontextmanager
async def offline(
    url: str, settings: Mapping[str, str | int] | None = None
) -> AsyncGenerator[tuple[RedisClient, EventStore]]:
    """The store behind this URL, and the client that it reads with."""
    client = RedisClient(url)
    try:
        store = await open_store(client, load_settings(dict(settings or {})), start=False)
        try:
            yield client, store
        finally:
            await store.close()
    finally:
        await client.close()
