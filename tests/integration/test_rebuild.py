"""Read models built anew: the old ones are served until the new ones are whole, and come out identical."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eventstore.event_store import EventStore
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from projections import redis_keys
from projections.projector import lock
from projections.projector.generation import PROJECT, GenerationGone
from projections.projector.lock import LockHeld, locked
from projections.projector.rebuild import SWITCH, Rebuild
from projections.read_models import ReadModels
from projections.redis_keys import REBUILDING
from tests.integration.models import check, dump, folded, leftovers, names, project, served, session_ids, snapshot
from tests.integration.stores import TENANT, client_of, create, models_of, note, send, until
from tests.integration.wandering import Wanderer
from tests.unit.domain.given import approve, ask, event, reject, turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def models(store: EventStore) -> ReadModels:
    return models_of(store)


async def _fill(store: EventStore, sessions: int = 12) -> None:
    for n in range(sessions):
        await create(store, f"s{n}", agent="ann" if n % 2 else None)
        await send(store, turn(), ask("c1"), ask("c2"), session_id=f"s{n}")
        await send(store, approve("c1"), session_id=f"s{n}")
        await send(store, event("turn.completed"), session_id=f"s{n}")


def _url(store: EventStore) -> str:
    return "unix://" + client_of(store).client.connection_pool.connection_kwargs["path"]


class Slow(RedisClient):
    """Stops before the n-th write of the models until it is let go."""

    def __init__(self, url: str, at: int = 1) -> None:
        super().__init__(url)
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()
        self._left = at

    async def run(self, call: ScriptCall) -> Any:
        if call.script in (PROJECT, SWITCH):
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                await self.let_go.wait()
        return await super().run(call)


async def test_a_rebuild_changes_nothing_that_is_shown(store: EventStore, models: ReadModels):
    await _fill(store)
    await project(models, store)
    before = await dump(store)
    progress = list[int]()
    rebuild = Rebuild(client_of(store), store.keys, progress.append)
    assert await rebuild.count() == 12
    assert await rebuild.all() == sum(progress) == 12
    assert await dump(store) == before
    assert {await served(store, number) for number in range(store.keys.partitions)} != {"0"}
    await check(models, store)


async def test_models_that_were_lost_or_spoilt_are_whole_again(store: EventStore, models: ReadModels):
    await _fill(store)
    await project(models, store)
    before = await dump(store)
    client = client_of(store).client
    async for key in client.scan_iter(match="layby:{p*}:proj:*:*"):
        await client.delete(key)
    await Rebuild(client_of(store), store.keys).all()
    assert await dump(store) == before
    await check(models, store)


async def test_while_it_lasts_the_old_models_are_served_and_kept_up_to_date(store: EventStore, models: ReadModels):
    await _fill(store)
    shown = await session_ids(models)
    slow = Slow(_url(store), at=2)
    rebuilding = asyncio.create_task(Rebuild(slow, store.keys).all())
    await slow.reached.wait()
    assert await session_ids(models) == shown
    await send(store, reject("c2"), session_id="s0")
    await store.delete(TENANT, "s1")
    await create(store, "new")
    assert await session_ids(models) == ["new", "s0", *[name for name in shown if name not in ("s0", "s1")]]
    assert (await snapshot(models, "s0"))["calls"][1]["status"] == "REJECTED"
    slow.let_go.set()
    await rebuilding
    await slow.close()
    assert (await session_ids(models))[:2] == ["new", "s0"]
    await check(models, store)


@pytest.mark.parametrize("background", [False, True])
async def test_under_load_it_ends_as_a_fold_of_the_streams(store: EventStore, models: ReadModels, background: bool):
    await _fill(store)
    if background:
        models.start()
    wanderers = [Wanderer(store, f"w{n}", n) for n in range(6)]
    for wanderer in wanderers:
        await wanderer.begin()
    writing = asyncio.gather(*(wanderer.wander(100) for wanderer in wanderers))
    rebuilt = 0
    while not writing.done():
        await Rebuild(client_of(store), store.keys).all()
        rebuilt += 1
        assert len(await session_ids(models)) == 18
    await writing
    assert rebuilt
    await models.close()
    await check(models, store)


@pytest.mark.parametrize("at", range(1, 6))
async def test_one_that_was_killed_leaves_the_old_models_and_the_next_one_cleans_up(
    store: EventStore, models: ReadModels, monkeypatch: pytest.MonkeyPatch, at: int
):
    await _fill(store, 6)
    await project(models, store)
    before = await dump(store)
    slow = Slow(_url(store), at)
    rebuilding = asyncio.create_task(Rebuild(slow, store.keys).all())
    await slow.reached.wait()
    await slow.close()
    monkeypatch.setattr(slow, "_answers", _gone)  # a killed process lets go of no lock
    rebuilding.cancel()
    with pytest.raises((asyncio.CancelledError, ConnectionError)):
        await rebuilding
    assert await dump(store) == before
    assert await leftovers(store)
    for partition in store.keys.all_partitions():  # the locks of the killed one lapse
        await client_of(store).command("PEXPIRE", redis_keys.building(partition), 1)
    await Rebuild(client_of(store), store.keys).all()
    assert await dump(store) == before
    await check(models, store)


async def _gone(*_: object) -> None:
    raise ConnectionError


async def test_two_at_once_build_one_after_the_other(store: EventStore, models: ReadModels, other: EventStore):
    await _fill(store)
    await asyncio.gather(Rebuild(client_of(store), store.keys).all(), Rebuild(client_of(other), other.keys).all())
    await check(models, store)


async def test_a_rebuild_of_the_whole_store_keeps_another_out(store: EventStore, other: EventStore):
    await _fill(store, 2)
    async with Rebuild(client_of(store), store.keys).alone():
        with pytest.raises(LockHeld):
            async with Rebuild(client_of(other), other.keys).alone():
                pass
    async with Rebuild(client_of(other), other.keys).alone():
        pass
    assert not await client_of(store).command("EXISTS", REBUILDING)


async def test_clearing_spares_what_another_builds_right_now(store: EventStore, models: ReadModels):
    await _fill(store)
    slow = Slow(_url(store), at=3)
    rebuilding = asyncio.create_task(Rebuild(slow, store.keys).all())
    await slow.reached.wait()
    for _ in range(3):
        await Rebuild(client_of(store), store.keys).clear()
    slow.let_go.set()
    await rebuilding
    await slow.close()
    await check(models, store)


async def test_a_generation_that_was_cleared_away_cannot_be_finished(store: EventStore, models: ReadModels):
    """Its builder stood still for so long that its lock went."""
    await _fill(store, 3)
    await project(models, store)
    slow = Slow(_url(store), at=1)
    number = store.session_keys(TENANT, "s0").partition.number
    partition = store.keys.partition(number)
    rebuilding = asyncio.create_task(Rebuild(slow, store.keys).partition(number))
    await slow.reached.wait()
    await client_of(store).command("DEL", redis_keys.building(partition))
    await Rebuild(client_of(store), store.keys).clear()
    slow.let_go.set()
    with pytest.raises(GenerationGone):
        await rebuilding
    await slow.close()
    await check(models, store)


async def test_a_lock_is_renewed_for_as_long_as_it_is_held(store: EventStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lock, "RENEWED_S", 0.01)
    connection = client_of(store)
    almost_over = lock.HELD_MS // 2
    async with locked(connection, REBUILDING, "me"):
        for _ in range(3):
            await connection.command("PEXPIRE", REBUILDING, almost_over)

            async def renewed() -> bool:
                return await connection.command("PTTL", REBUILDING) > almost_over

            await until(renewed)
            assert await connection.command("GET", REBUILDING) == b"me"
    async with locked(connection, REBUILDING, "me"):
        await connection.command("SET", REBUILDING, "you")
    assert await connection.command("GET", REBUILDING) == b"you", "only its holder lets go of a lock"
    await connection.command("DEL", REBUILDING)


async def test_sessions_longer_than_one_reading_are_rebuilt_whole(store: EventStore, models: ReadModels):
    await create(store)
    for n in range(4):
        await send(store, *[note(n) for _ in range(300)], ask(f"c{n}"))
    await Rebuild(client_of(store), store.keys).all()
    assert await names(models) == [f"s1/c{n}" for n in range(4)]
    assert await dump(store) == await folded(store)


async def test_partitions_in_which_nothing_happened_are_left_alone(store: EventStore, models: ReadModels):
    await Rebuild(client_of(store), store.keys).all()
    assert [key async for key in client_of(store).client.scan_iter(match="layby:{p*}*")] == []


async def test_a_rebuild_under_way_follows_the_feed_so_that_trimming_does_not_overtake_it(
    store: EventStore, models: ReadModels
):
    await create(store, "first")
    number = store.session_keys(TENANT, "first").partition.number
    some = [f"s{n}" for n in range(900) if store.session_keys(TENANT, f"s{n}").partition.number == number][:130]
    for name in some:
        await create(store, name)
    partition = store.keys.partition(number)

    async def trim(_: int) -> None:
        for _ in range(2):
            await send(store, note(), session_id="first")
        await client_of(store).client.xtrim(partition.feed, maxlen=4, approximate=False)

    tasks = list[asyncio.Task[None]]()
    rebuild = Rebuild(client_of(store), store.keys, lambda _: tasks.append(asyncio.create_task(trim(0))))
    await rebuild.partition(number)
    await asyncio.gather(*tasks)
    await Rebuild(client_of(store), store.keys).clear()
    assert len(tasks) == 3
    await until(lambda: _is_current(store, models))


async def _is_current(store: EventStore, models: ReadModels) -> bool:
    await project(models, store)
    return await dump(store) == await folded(store)
