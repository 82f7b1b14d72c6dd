"""A store behind Sentinels: when the master goes, or gives way, everything goes on at the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator

import pytest

from eventstore.domain.errors import StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.redis_client.url import UnfitEngine
from eventstore.settings import Durability
from proofs.engines import MASTER, Sentinels, eventually
from tests.integration.clusters import AT_ONCE, clear, opened
from tests.integration.stores import TENANT, create, generator, key, note, send, until
from tests.unit.domain.given import ask

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Generator[Sentinels]:
    with Sentinels(tmp_path_factory.mktemp("sentinels"), replicas=1, sentinels=3, **AT_ONCE) as sentinels:
        yield sentinels


@pytest.fixture
async def sentinels(group: Sentinels) -> AsyncGenerator[Sentinels]:
    for one in (*group.sentinels, *group.engines):
        if not one.alive:
            await asyncio.to_thread(one.start)
    for one in group.engines:
        if (
            one is not group.master
        ):  # Sentinels wait for eight seconds before they make a replica of one that comes back
            one.client.replicaof("127.0.0.1", group.master.port)
    await asyncio.to_thread(eventually, lambda: _in_step(group), "the replica is in step")
    await clear(group.engines)
    yield group


def _in_step(group: Sentinels) -> bool:
    about = group.master.client.info("replication")
    replicas = [about[name] for name in about if name.startswith("slave") and isinstance(about[name], dict)]
    reached = [one["offset"] for one in replicas if one["state"] == "online"]
    return about["role"] == "master" and reached == [about["master_repl_offset"]] * (len(group.engines) - 1)


@pytest.fixture
async def stores(sentinels: Sentinels) -> AsyncGenerator[list[EventStore]]:
    async with opened(sentinels.url, 2, durability=Durability("replicated", 1)) as found:
        yield list(found)


async def sent(store: EventStore, text: str) -> str:
    """How durable it was in the end."""
    while True:
        try:
            return (await send(store, note(text), retry=key(text))).durability
        except StoreUnavailable:
            await asyncio.sleep(0.05)


async def test_a_master_that_is_killed_is_followed_by_its_replica(
    stores: list[EventStore], sentinels: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.POLL_S", 60.0)
    store, other = stores
    await create(store)
    await asyncio.to_thread(eventually, lambda: _in_step(sentinels), "the replica is in step")
    tail = generator(other.follow(TENANT, "s1", 0))
    await anext(tail)
    following = asyncio.create_task(anext(tail))
    killed = await asyncio.to_thread(sentinels.kill_master)
    assert await sent(store, "after") == "fsync", "no replica is left"
    assert b"after" in (await asyncio.wait_for(following, 20)).lines[0]
    await tail.aclose()
    await send(store, ask("c1", expires_in_ms=200))
    await until(lambda: _expired(store))
    assert sentinels.master is not killed


async def test_a_master_that_gives_way_is_not_believed_any_longer(sentinels: Sentinels) -> None:
    """It lives on as a replica, and would answer reads with what it has."""
    async with opened(sentinels.url, 2) as (store, other):
        await create(store)
        old = sentinels.master
        await asyncio.to_thread(sentinels.sentinels[0].client.execute_command, "SENTINEL FAILOVER", MASTER)
        await asyncio.to_thread(sentinels.taken_over, old)
        await asyncio.to_thread(eventually, lambda: old.client.info("replication")["role"] == "slave", "it gives way")
        for n in range(10):
            await sent((store, other)[n % 2], f"n{n}")
            assert (await (store, other)[n % 2].page(TENANT, "s1", 1, 100)).last_seq == n + 2


async def test_one_sentinel_that_answers_is_enough(sentinels: Sentinels) -> None:
    for one in sentinels.sentinels[:2]:
        one.kill()
    async with opened(sentinels.url) as (store,):
        await create(store)


async def test_a_master_that_no_sentinel_knows_is_said(sentinels: Sentinels, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreUnavailable):
        async with opened(sentinels.url.replace(f"/{MASTER}", "/nobody")):
            pass
    assert "no Sentinel that answers knows a master nobody" in caplog.text


async def test_one_that_is_no_sentinel_is_said(sentinels: Sentinels) -> None:
    redis = f"127.0.0.1:{sentinels.master.port}"
    with pytest.raises(UnfitEngine, match="is no Sentinel: unknown command"):
        async with opened(f"redis+sentinel://{redis}/{MASTER}"):
            pass


async def _expired(store: EventStore) -> bool:
    return any(b"input.expired" in line for line in (await store.page(TENANT, "s1", 1, 100)).lines)
