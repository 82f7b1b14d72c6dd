"""A real engine for the whole run, stores opened on it, and no key left behind without a reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from eventstore.event_store import EventStore
from eventstore.redis_keys import Keys
from eventstore.support.timing import TIMING, Timing
from proofs.proxy import Proxy
from tests.integration.stores import chosen, close, open_at
from tests.scripts import leaks
from tests.scripts.engines import HeldEngine, held_engine

OpenStore = Callable[..., Awaitable[EventStore]]
PARTITIONS = 4


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[HeldEngine]:
    with held_engine(tmp_path_factory.mktemp("engine")) as held:
        yield held


@pytest.fixture
async def redis(engine: HeldEngine) -> AsyncGenerator[Redis]:
    """A plain client to the engine, which is empty when a test begins."""
    client = Redis.from_url(engine.url)
    await client.flushall()
    yield client
    await leaks.check(client, Keys(PARTITIONS))
    await client.aclose()


@pytest.fixture
async def opened(engine: HeldEngine, redis: Redis) -> AsyncGenerator[OpenStore]:
    """Opens event stores, each as a process of its own would; `start=False` leaves out the background work."""
    stores = list[EventStore]()

    async def open_one(
        url: str | None = None, *, start: bool = True, timing: Timing = TIMING, **settings: object
    ) -> EventStore:
        wanted = chosen(partitions=PARTITIONS, **settings)
        stores.append(await open_at(url or engine.url, wanted, start=start, timing=timing))
        return stores[-1]

    yield open_one
    for store in stores:
        await close(store)


@pytest.fixture
async def store(opened: OpenStore) -> EventStore:
    return await opened()


@pytest.fixture
async def other(opened: OpenStore) -> EventStore:
    """Another process on the same engine."""
    return await opened()


@pytest.fixture
async def proxy(engine: HeldEngine, tmp_path: Path) -> AsyncGenerator[Proxy]:
    between = Proxy(engine.url, tmp_path / "proxy.sock")
    await between.up()
    yield between
    await between.down()
