"""An answer says what was reached, also when it rests on a commit that was made before."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from redis.asyncio import Redis

from tests.integration.conftest import OpenStore
from tests.integration.stores import create, key, note, send, skip_without_waitaof

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["everysec", "no"])
async def later(request: pytest.FixtureRequest, redis: Redis) -> AsyncGenerator[str]:
    """An engine that answers first, and syncs every second, or when the system likes."""
    if request.param == "everysec":
        await skip_without_waitaof(redis)
    await redis.config_set("appendfsync", request.param)
    yield {"everysec": "fsync", "no": "memory"}[request.param]
    await redis.config_set("appendfsync", "always")


async def test_an_engine_that_syncs_later_is_waited_for(opened: OpenStore, later: str) -> None:
    store, other = await opened(), await opened()
    await create(store)
    assert (await send(store, note("a"), retry=key("a"))).durability == later
    replayed = await send(other, note("a"), retry=key("a"))
    assert (replayed.replayed, replayed.durability) == (True, later)


async def test_where_memory_is_enough_nothing_is_waited_for(opened: OpenStore, redis: Redis) -> None:
    await redis.config_set("appendfsync", "everysec")
    try:
        store = await opened(durability="memory")
        await create(store)
        assert (await send(store, note("a"))).durability == "memory"
    finally:
        await redis.config_set("appendfsync", "always")


async def test_an_engine_that_always_syncs_is_not_asked_again(opened: OpenStore, redis: Redis) -> None:
    store = await opened()
    await create(store)
    await redis.config_resetstat()
    assert (await send(store, note("a"))).durability == "fsync"
    assert "cmdstat_waitaof" not in await redis.info("commandstats")


async def test_replicas_that_are_not_there_are_warned_of(opened: OpenStore, caplog: pytest.LogCaptureFixture) -> None:
    await opened(durability="fsync")
    assert not caplog.messages
    await opened(durability="replicated:2")
    (line,) = caplog.messages
    assert line.startswith("Redis has 0 replicas, and durability is replicated:2: each commit waits 2 s")
