"""Exactly once: whoever projects, and wherever it is killed, the models are a fold of the streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from eventstore.event_store import EventStore
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from projections import redis_keys
from projections.fold import session_fold
from projections.fold.index_writes import Writes
from projections.projector import background
from projections.projector.generation import PROJECT, WRITES_AT_ONCE, Generation, Moved
from projections.projector.rebuild import Rebuild
from projections.read_models import ReadModels
from projections.redis_keys import Layout
from tests.integration.conftest import OpenStore
from tests.integration.models import check, dump, folded, leftovers, names, project, served, session_ids
from tests.integration.stores import TENANT, client_of, create, models_of, note, send, until
from tests.integration.wandering import Wanderer
from tests.unit.domain.given import approve, ask, event, reject, turn

pytestmark = pytest.mark.anyio
Run = Callable[[ScriptCall], Awaitable[Any]]


@pytest.fixture
def models(store: EventStore) -> ReadModels:
    return models_of(store)


class Killed(Exception):
    """The process is gone."""


class Interrupted(RedisClient):
    """Does something else when the models are written for the n-th time."""

    def __init__(self, url: str, instead: dict[int, Callable[[Run, ScriptCall], Awaitable[Any]]]) -> None:
        super().__init__(url)
        self._instead = instead
        self._count = 0

    async def run(self, call: ScriptCall) -> Any:
        if call.script is PROJECT:
            self._count += 1
            if self._count in self._instead:
                return await self._instead[self._count](super().run, call)
        return await super().run(call)


async def _killed_before(_: Run, __: ScriptCall) -> Any:
    raise Killed


async def _killed_after(run: Run, call: ScriptCall) -> Any:
    await run(call)
    raise Killed


async def _answer_lost(run: Run, call: ScriptCall) -> Any:
    await run(call)
    return await run(call)


def of_partition(store: EventStore, connection: RedisClient, number: int = 0, generation: str = "0") -> Generation:
    layout = Layout(store.keys.partition(number), generation)
    return Generation(connection, store.keys, layout, served=True)


async def _story(store: EventStore) -> int:
    """Some sessions of one partition; its number."""
    number = store.session_keys(TENANT, "s0").partition.number
    some = [name for n in range(60) if store.session_keys(TENANT, name := f"s{n}").partition.number == number][:5]
    for name in some:
        await create(store, name, agent="ann")
        await send(store, turn(), ask("c1"), ask("c2"), session_id=name)
        await send(store, approve("c1"), session_id=name)
    await store.delete(TENANT, some[1])
    return number


@pytest.mark.parametrize("how", [_killed_before, _killed_after])
@pytest.mark.parametrize("at", range(1, 5))
async def test_a_projector_may_be_killed_at_any_write(
    store: EventStore, models: ReadModels, how: Callable[[Run, ScriptCall], Awaitable[Any]], at: int
):
    number = await _story(store)
    for more in (reject("c2"), event("turn.failed")):
        connection = Interrupted(_url(store), {at: how})
        with contextlib.suppress(Killed):
            await of_partition(store, connection, number).catch_up()
        await connection.close()
        await send(store, more, session_id="s0")
    await check(models, store)


@pytest.mark.parametrize("at", range(1, 5))
async def test_a_lost_answer_is_not_applied_twice(store: EventStore, models: ReadModels, at: int):
    number = await _story(store)
    connection = Interrupted(_url(store), {at: _answer_lost})
    await of_partition(store, connection, number).catch_up()
    await connection.close()
    await check(models, store)


def _url(store: EventStore) -> str:
    return "unix://" + client_of(store).client.connection_pool.connection_kwargs["path"]


async def test_two_projectors_at_once_write_every_change_once(store: EventStore, other: EventStore):
    mine, theirs = models_of(store), models_of(other)
    wanderers = [Wanderer(store, f"s{n}", n) for n in range(6)]
    for wanderer in wanderers:
        await wanderer.begin()
    writing = asyncio.gather(*(wanderer.wander(60) for wanderer in wanderers))
    while not writing.done():
        await asyncio.gather(project(mine, store), project(theirs, other), project(mine, store))
    await writing
    await check(mine, store)


async def test_an_old_reading_is_refused_as_a_whole(store: EventStore, models: ReadModels, redis: Redis):
    number = await _story(store)
    zombie = of_partition(store, client_of(store), number)
    reading = await zombie.unread()
    await models.catch_up(number)
    before = await dump(store)
    with pytest.raises(Moved):
        await zombie._take_in(reading)
    assert await dump(store) == before
    await send(store, reject("c2"), session_id="s0")
    await models.catch_up(number)
    before = await dump(store)
    with pytest.raises(Moved):
        await zombie._take_in(reading)
    assert await dump(store) == before == await folded(store)


async def test_a_zombie_leaves_nothing_in_a_generation_that_is_over(store: EventStore, models: ReadModels):
    number = await _story(store)
    zombie = of_partition(store, client_of(store), number)
    reading = await zombie.unread()
    await Rebuild(client_of(store), store.keys).all()
    with pytest.raises(Moved):
        await zombie._take_in(reading)
    await check(models, store)


async def test_a_zombie_cannot_bring_a_deleted_session_back(store: EventStore, models: ReadModels):
    number = await _story(store)
    zombie = of_partition(store, client_of(store), number)
    reading = await zombie.unread()
    await store.delete(TENANT, "s0")

    async def meanwhile(run: Run, call: ScriptCall) -> Any:
        await models.catch_up(number)
        return await run(call)

    for at in (1, 2):
        connection = Interrupted(_url(store), {at: meanwhile})
        with pytest.raises(Moved):
            await of_partition(store, connection, number)._take_in(reading)
        await connection.close()
    await check(models, store)


async def test_a_deletion_is_not_half_done_when_another_projects_the_session_meanwhile(
    store: EventStore, models: ReadModels
):
    """One has read the session's events, another its deletion; neither has written yet."""
    await create(store, agent="ann")
    await send(store, ask())
    number = store.session_keys(TENANT, "s1").partition.number
    reading = await of_partition(store, client_of(store), number).unread()
    release, waiting = asyncio.Event(), asyncio.Event()

    async def held(run: Run, call: ScriptCall) -> Any:
        waiting.set()
        await release.wait()
        return await run(call)

    slow = Interrupted(_url(store), {1: held, 2: _killed_before})
    session_fold = asyncio.create_task(of_partition(store, slow, number)._take_in(reading))
    await waiting.wait()
    await store.delete(TENANT, "s1")

    async def let_the_other_write(run: Run, call: ScriptCall) -> Any:
        release.set()
        with pytest.raises(Moved):  # the log that it has read is gone
            await session_fold
        return await run(call)

    quick = Interrupted(_url(store), {1: let_the_other_write})
    await of_partition(store, quick, number).catch_up()
    await slow.close()
    await quick.close()
    await check(models, store)
    assert await dump(store) == {}


@pytest.mark.parametrize("at", range(1, 6))
async def test_a_reading_that_crosses_another_projectors_write_does_not_lose_what_is_left(
    store: EventStore, models: ReadModels, caplog: pytest.LogCaptureFixture, at: int
):
    """Its view is old and its calls are new. That is no broken log, whose entries would be passed over."""
    await create(store)
    await send(store, ask())
    await project(models, store)
    await send(store, approve())
    await send(store, *[note(n) for n in range(900)], ask("c2"))
    number = store.session_keys(TENANT, "s1").partition.number
    dying = Interrupted(_url(store), {2: _killed_before})

    class Crossed(RedisClient):
        left = at

        async def commands(self, batch: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                with contextlib.suppress(Killed):
                    await of_partition(store, dying, number).catch_up()
            return await super().commands(batch)

    crossed = Crossed(_url(store))
    await of_partition(store, crossed, number).catch_up()
    await crossed.close()
    await dying.close()
    assert await dump(store) == await folded(store)
    assert "cannot be projected" not in caplog.text


async def test_a_feed_that_was_trimmed_behind_the_checkpoint_leads_to_a_rebuild(
    opened: OpenStore, models: ReadModels, caplog: pytest.LogCaptureFixture
):
    store = await opened()
    number = await _story(store)
    await models.catch_up(number)
    for n in range(20):
        await send(store, ask(f"x{n}"), session_id="s0")
    await store.delete(TENANT, "s0")
    feed = store.keys.partition(number).feed
    await client_of(store).client.xtrim(feed, maxlen=3, approximate=False)
    await asyncio.gather(*(models.catch_up(number) for _ in range(4)))
    assert "trimmed" in caplog.text
    assert await served(store, number) != "0"
    await until(lambda: _clean(store))
    await check(models, store)


async def _clean(store: EventStore) -> bool:
    return not await leftovers(store)


async def test_a_feed_that_was_trimmed_before_anything_was_projected_leads_to_a_rebuild(
    store: EventStore, models: ReadModels
):
    number = await _story(store)
    await client_of(store).client.xtrim(store.keys.partition(number).feed, maxlen=2, approximate=False)
    assert "s0" in await session_ids(models)
    await until(lambda: _clean(store))
    await check(models, store)


async def test_one_broken_log_does_not_stop_the_sessions_beside_it(
    store: EventStore, models: ReadModels, caplog: pytest.LogCaptureFixture
):
    number = await _story(store)
    keys = store.session_keys(TENANT, "s0")
    await client_of(store).client.delete(keys.events)
    await client_of(store).client.xadd(keys.events, {"e": "{", "h": ""}, id="1-0")
    await client_of(store).client.xadd(keys.events, {"e": "{", "h": ""}, id="4-0")
    await models.catch_up(number)
    shown = await session_ids(models)
    assert "s0" not in shown
    assert len(shown) == 3
    assert await names(models)
    assert caplog.text.count("session s0 cannot be projected") == 1
    await Rebuild(client_of(store), store.keys).all()
    assert await session_ids(models) == shown
    await client_of(store).client.flushall()


async def test_thousands_of_events_between_two_projections_are_all_taken_in(store: EventStore, models: ReadModels):
    await create(store)
    await project(models, store)
    for n in range(5):
        await send(store, *[note(k) for k in range(500)], ask(f"c{n}"))
    assert await names(models) == [f"s1/c{n}" for n in range(5)]
    await check(models, store)


@pytest.mark.parametrize(("lines", "size"), [(4, 1 << 20), (100, 1_000), (7, 1)])
async def test_no_view_is_stored_that_ends_within_a_commit(
    store: EventStore, models: ReadModels, monkeypatch: pytest.MonkeyPatch, lines: int, size: int
):
    """However little is read at once: a page of steps or calls shows what is stored."""
    monkeypatch.setattr(session_fold, "FOLD_LINES", lines)
    monkeypatch.setattr(session_fold, "FOLD_BYTES", size)
    await create(store)
    ends, stored, apply = [1], list[int](), Generation._apply
    for count in (1, 3, 10, 2, 1, 30):
        await send(store, *(note(n) for n in range(count)))
        ends.append(ends[-1] + count)

    async def applied(generation: Generation, *given: Any) -> None:
        await apply(generation, *given)
        view = generation.layout.session(TENANT, "s1").view
        stored.append(int(await client_of(store).command("HGET", view, "seq") or 0))

    monkeypatch.setattr(Generation, "_apply", applied)
    await project(models, store)
    assert {*stored} <= {0, *ends} and stored[-1] == ends[-1]
    await send(store, note("late"))
    await Rebuild(client_of(store), store.keys).all()
    await check(models, store)


async def test_a_commit_of_more_calls_than_lua_unpacks_at_once_is_projected(store: EventStore):
    """Its view is written in one piece, and a command of Lua has 8,000 arguments at most."""
    await create(store)
    partition = store.session_keys(TENANT, "s1").partition
    writes, layout = Writes(), Layout(partition, await served(store, partition.number))
    for n in range(5_000):
        writes.add("ZADD", layout.inbox(TENANT, "X", tool=None, agent=None), n, f"m{n}")
    await Generation(client_of(store), store.keys, layout, served=True)._apply("", writes)
    key = layout.inbox(TENANT, "X", tool=None, agent=None)
    assert await client_of(store).command("ZCARD", key) == 5_000
    await client_of(store).command("UNLINK", key)


async def test_no_script_call_grows_with_what_is_to_be_projected(store: EventStore, models: ReadModels):
    sizes = list[int]()

    class Measured(RedisClient):
        async def run(self, call: ScriptCall) -> Any:
            if call.script is PROJECT:
                sizes.append(len(call.args))
            return await super().run(call)

    for n in range(2):
        await create(store, f"s{n}", agent="ann")
        await send(store, *[ask(f"c{m}") for m in range(600)], session_id=f"s{n}")
    connection = Measured(_url(store))
    for number in range(store.keys.partitions):
        await of_partition(store, connection, number).catch_up()
    for n in range(2):
        await store.delete(TENANT, f"s{n}")
    for number in range(store.keys.partitions):
        await of_partition(store, connection, number).catch_up()
    await connection.close()
    assert max(sizes) < 8 * (WRITES_AT_ONCE + 9 * 250)
    assert await dump(store) == {}


async def test_catching_up_ends_while_others_go_on_writing(store: EventStore, models: ReadModels):
    await create(store)
    number = store.session_keys(TENANT, "s1").partition.number
    over = asyncio.Event()

    async def write() -> None:
        while not over.is_set():
            await send(store, *[note() for _ in range(20)])

    writing = [asyncio.create_task(write()) for _ in range(4)]
    try:
        for _ in range(5):
            await asyncio.wait_for(models.catch_up(number), 10)
    finally:
        over.set()
        await asyncio.gather(*writing)
    await check(models, store)


async def test_the_background_work_takes_in_what_nobody_asks_for(opened: OpenStore):
    store = await opened()
    models = models_of(store)
    models.start()
    try:
        for n in range(8):
            await create(store, f"s{n}")
            await send(store, ask(), event("session.completed"), session_id=f"s{n}")

        async def all_there() -> bool:
            return await dump(store) == await folded(store)

        await until(all_there)
    finally:
        await models.close()


async def test_a_generation_that_another_process_switched_is_noticed_by_every_read(
    store: EventStore, models: ReadModels, other: EventStore
):
    await create(store)
    await send(store, turn(), ask())
    for read in (
        lambda: models.steps(TENANT, "s1", 10, None),
        lambda: models.calls(TENANT, "s1", 10, None),
        lambda: models.session(TENANT, "s1"),
        lambda: models.sessions(TENANT, status=None, parked=None, agent=None, limit=10, cursor=None),
        lambda: models.inbox(TENANT, tool_name=None, agent=None, limit=10, cursor=None),
    ):
        before = await read()
        await Rebuild(client_of(other), other.keys).all()
        assert await read() == before


async def test_a_new_generation_that_is_behind_is_caught_up_before_it_is_shown(
    store: EventStore, models: ReadModels, other: EventStore
):
    """The old one is up to date when the other is switched to, which is not."""
    await create(store)
    partition = store.session_keys(TENANT, "s1").partition
    old, new = Layout(partition, "0"), Layout(partition, "new")
    await project(models, store)
    built = Generation(client_of(other), other.keys, new, served=False)
    await client_of(other).command("SET", new.checkpoint, "")
    await built.catch_up()
    await send(store, ask())
    await project(models, store)
    assert models._upkeep.projectors[partition.number].layout == old
    await client_of(other).command("SET", redis_keys.current(partition), "new")
    assert await names(models) == ["s1/c1"]
    await Rebuild(client_of(store), store.keys).clear()
    await check(models, store)


async def test_a_switch_after_catching_up_is_noticed_before_the_page_is_shown(
    store: EventStore, models: ReadModels, monkeypatch: pytest.MonkeyPatch
):
    await create(store)
    partition = store.session_keys(TENANT, "s1").partition
    new = Layout(partition, "new")
    await client_of(store).command("SET", new.checkpoint, "")
    await Generation(client_of(store), store.keys, new, served=False).catch_up()
    catch_up_all = models._upkeep.catch_up_all

    async def then_switch(numbers: Any) -> Any:
        caught_up = await catch_up_all(numbers)
        await client_of(store).command("SET", redis_keys.current(partition), "new")
        return caught_up

    monkeypatch.setattr(models._upkeep, "catch_up_all", then_switch)
    await send(store, ask())
    assert await names(models) == ["s1/c1"]
    await Rebuild(client_of(store), store.keys).clear()
    await check(models, store)


@pytest.mark.parametrize(("part", "field"), [("view", "record"), ("calls", "c2")])
async def test_a_damaged_model_is_built_anew_and_stops_nobody(
    store: EventStore, models: ReadModels, caplog: pytest.LogCaptureFixture, part: str, field: str
):
    """Models can be made of the logs again, so damage to them is mended, and told."""
    number = await _story(store)
    await models.catch_up(number)
    damaged = getattr(Layout(store.keys.partition(number), "0").session(TENANT, "s0"), part)
    await client_of(store).client.hset(damaged, field, "{")
    if part == "view":  # then the snapshot is folded from the log
        assert json.loads((await models.session(TENANT, "s0"))[1])["calls_total"] == 2
    await send(store, reject("c2"), session_id="s0")
    assert len(await session_ids(models)) == 4
    assert f"partition {number}: a stored model cannot be read; rebuilding" in caplog.text
    assert await served(store, number) != "0"
    await until(lambda: _clean(store))
    await check(models, store)


async def test_after_a_long_catch_up_the_background_work_rests_only_a_moment(
    store: EventStore, models: ReadModels, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests in proportion to the work, which may have been a million events; and others wait for the end of it."""
    monkeypatch.setattr(background, "REST", 1e9)
    monkeypatch.setattr(background, "LONGEST_REST_S", 0.05)
    models.start()
    for name in ("s1", "s2", "s3"):
        await create(store, name)
        projector = models._upkeep.projectors[store.session_keys(TENANT, name).partition.number]
        view = projector.layout.session(TENANT, name).view
        await until(lambda view=view: redis.exists(view))
    await models.close()
