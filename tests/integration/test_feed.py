"""The feed on a real engine: everything once, each session in order, from any point on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from eventstore.commit.listener import CommitListener
from eventstore.domain.commands import Actor, CreateSession, NewEvent, Publish
from eventstore.domain.errors import CursorTooOld, Diverged, InvalidRequest
from eventstore.embedded.engine import EmbeddedEngine
from eventstore.event_store import EventStore
from eventstore.feed import backfill, follower, tenant_feed
from eventstore.feed import reader as feed_reader
from eventstore.feed.tenant_feed import NOW, Feed, FeedItem
from tests.integration.stores import chosen, client_of, close, open_at

pytestmark = pytest.mark.anyio
ME = Actor("test")
PATIENCE_S = 20
QUIET_S = 0.05
"""How long nothing must come, where nothing may come."""
PLACES = 100

Told = tuple[str, int]
"""Session and seq; 0 for a deletion."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class World:
    """A store, its feed, and what was written."""

    def __init__(self, store: EventStore) -> None:
        self.store: EventStore = store
        self.feed: Feed = store._feed
        self.seqs: dict[str, int] = {}

    async def create(self, session_id: str, tenant: str = "acme") -> str:
        await self.store.execute(tenant, session_id, CreateSession(session_id), ME)
        self._wrote(session_id, 1)
        return session_id

    async def publish(self, session_id: str, count: int = 1, tenant: str = "acme", **data: Any) -> None:
        events = [NewEvent("a.b" if n % 2 else "a.c", {"n": n, **data}) for n in range(count)]
        await self.store.execute(tenant, session_id, Publish(events), ME)
        self._wrote(session_id, count)

    def _wrote(self, session_id: str, count: int) -> None:
        self.seqs[session_id] = self.seqs.get(session_id, 0) + count

    async def delete(self, session_id: str, tenant: str = "acme") -> None:
        await self.store.delete(tenant, session_id)
        self.seqs.pop(session_id)

    @property
    def events(self) -> list[Told]:
        """Every event of the sessions that are left."""
        return [(session_id, seq) for session_id, last in self.seqs.items() for seq in range(1, last + 1)]

    async def fill(self, sessions: int, commits: int, count: int = 1) -> None:
        """So many sessions, written at the same time."""

        async def write(session_id: str) -> None:
            await self.create(session_id)
            for _ in range(commits):
                await self.publish(session_id, count)

        await asyncio.gather(*(write(f"s{n:03d}") for n in range(sessions)))

    async def read(self, count: int, cursor: str | None = None, **options: Any) -> list[FeedItem]:
        """So many items, after which nothing more comes."""
        items = list[FeedItem]()
        async with self.following(cursor, **options) as following:
            async with asyncio.timeout(PATIENCE_S):
                while len(items) < count:
                    items += await anext(following)
            assert len(items) == count, [told(item) for item in items[count:]]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(QUIET_S):
                    items += await anext(following)
        return items

    @asynccontextmanager
    async def following(
        self, cursor: str | None = None, tenant: str = "acme", wanted: Any = None
    ) -> AsyncIterator[AsyncGenerator[list[FeedItem]]]:
        """A stream that has begun."""
        generator = cast("AsyncGenerator[list[FeedItem]]", self.feed.follow(tenant, cursor, wanted))
        async with aclosing(generator):
            async with asyncio.timeout(PATIENCE_S):
                assert await anext(generator) == []
            yield generator


Open = Callable[..., Awaitable[World]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens worlds of one engine."""
    engine, stores = EmbeddedEngine(tmp_path / "data"), list[EventStore]()
    url = await engine.start()

    async def open_world(**settings: Any) -> World:
        store = await open_at(url, chosen(**settings), start=False)
        listening = asyncio.Event()

        class Listening(CommitListener):
            def announcements_missed(self) -> None:
                listening.set()

        store.listen(Listening())
        store.start()
        stores.append(store)
        await listening.wait()
        return World(store)

    yield open_world
    for store in stores:
        await close(store)
    await engine.stop()


def told(item: FeedItem) -> Told:
    return item.session_id, item.seq


def by_session(items: list[FeedItem]) -> dict[str, list[int]]:
    seqs = dict[str, list[int]]()
    for item in items:
        seqs.setdefault(item.session_id, []).append(item.seq)
    return seqs


async def resume_everywhere(world: World, whole: list[FeedItem], **options: Any) -> None:
    """Reading on after any item (of very many, after some) gives what an uninterrupted read gives."""
    expected = by_session(whole)
    places = sorted(random.sample(range(len(whole)), min(len(whole), PLACES)))

    async def check(at: int) -> None:
        rest = await world.read(len(whole) - at - 1, whole[at].cursor, **options)
        assert by_session(whole[: at + 1] + rest) == expected, at

    for start in range(0, len(places), 20):
        await asyncio.gather(*map(check, places[start : start + 20]))


async def test_from_the_beginning_everything_comes_once_and_any_cursor_resumes(opened: Open):
    world = await opened(partitions=8)
    await world.fill(12, 3, count=3)
    whole = await world.read(len(world.events))
    assert sorted(map(told, whole)) == sorted(world.events)
    assert all(seqs == sorted(seqs) for seqs in by_session(whole).values())
    page = await world.store.page("acme", "s000", 1, 100)
    assert [item.line for item in whole if item.session_id == "s000"] == page.lines
    await resume_everywhere(world, whole)


async def test_a_commit_larger_than_one_read_is_resumed_in_its_middle(opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed_reader, "READ_BYTES", 2_000)
    monkeypatch.setattr(feed_reader, "READS_AT_ONCE", 3)
    world = await opened(partitions=2)
    for n in range(5):
        await world.create(f"s{n}")
        await world.publish(f"s{n}", 8, text="x" * 600)
    whole = await world.read(len(world.events))
    assert sorted(map(told, whole)) == sorted(world.events)
    await resume_everywhere(world, whole)


async def test_now_tells_what_comes_and_nothing_before(opened: Open):
    world = await opened()
    await world.fill(5, 2)
    async with world.following(NOW) as following, asyncio.timeout(PATIENCE_S):
        await world.publish("s001", 2)
        await world.create("late")
        items = list[FeedItem]()
        while len(items) < 3:
            items += await anext(following)
    assert by_session(items) == {"s001": [4, 5], "late": [1]}


async def test_writers_at_the_same_time_and_readers_that_come_back(opened: Open):
    """Readers that leave after a few items, at random, and resume: no gap, no duplicate."""
    world = await opened(partitions=4)
    other = await opened(partitions=4)  # another process as far as anyone can tell
    total = 16 * (1 + 20 * 2)

    async def reader(feed_of: World) -> list[FeedItem]:
        items = list[FeedItem]()
        while len(items) < total:
            cursor = items[-1].cursor if items else None
            leave_at = len(items) + random.randint(1, 60)
            async with feed_of.following(cursor) as following:
                while len(items) < min(leave_at, total):
                    items += await anext(following)
            if len(items) < total:  # drop some of what came last, as a client does that was cut
                del items[max(1, len(items) - random.randint(0, 5)) :]
        return items

    async with asyncio.timeout(60):
        readers = asyncio.gather(*(reader(whose) for whose in (world, other) for _ in range(4)))
        await world.fill(16, 20, count=2)
        for items in await readers:
            assert by_session(items) == {name: list(range(1, last + 1)) for name, last in world.seqs.items()}


async def test_news_that_get_lost_cost_time_and_no_event(opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tenant_feed, "POLL_S", 0.1)
    world = await opened(partitions=4)
    world.store.stop_listening(world.store._feed._board)
    async with world.following(NOW) as following, asyncio.timeout(PATIENCE_S):
        await world.create("s")
        assert [told(item) for item in await anext(following)] == [("s", 1)]


async def test_a_deletion_is_told_and_older_entries_of_the_session_yield_nothing(opened: Open):
    world = await opened(partitions=2)
    await world.fill(4, 2, count=2)
    before = await world.read(len(world.events))
    await world.delete("s001")
    after = await world.read(len(world.events) + 1)
    assert by_session(after)["s001"] == [0] and next(i for i in after if i.session_id == "s001").deleted
    assert sorted(map(told, after)) == sorted([*world.events, ("s001", 0)])
    await resume_everywhere(world, after)
    (gone,) = await world.read(1, before[-1].cursor)
    assert gone.deleted and gone.line is None and told(gone) == ("s001", 0)
    assert await world.read(0, gone.cursor) == []


async def test_only_wanted_types_are_told_but_every_deletion(opened: Open):
    world = await opened(partitions=2)
    await world.fill(3, 2, count=3)
    await world.delete("s002")

    def wanted(kind: str) -> bool:
        return kind == "a.b"

    expected = [("s000", 3), ("s000", 6), ("s001", 3), ("s001", 6), ("s002", 0)]
    whole = await world.read(len(expected), wanted=wanted)
    assert sorted(map(told, whole)) == expected
    await resume_everywhere(world, whole, wanted=wanted)


async def test_tenants_do_not_see_each_other(opened: Open):
    world = await opened(partitions=2)
    await world.create("mine")
    await world.create("theirs", tenant="bolt")
    await world.publish("mine", 2)
    (theirs,) = await world.read(1, tenant="bolt")
    assert theirs.session_id == "theirs"
    mine = await world.read(3)
    assert by_session(mine) == {"mine": [1, 2, 3]}
    with pytest.raises(InvalidRequest):
        async with world.following(mine[0].cursor, tenant="bolt"):
            pass


@pytest.mark.parametrize("cursor", ["", "x", "1", "NOW", "-1", "../..", "A" * 500])
async def test_a_garbled_cursor_is_refused(opened: Open, cursor: str):
    world = await opened()
    with pytest.raises(InvalidRequest) as refused:
        async with world.following(cursor):
            pass
    assert refused.value.errors[0].parameter == "cursor"


async def trimmed(world: World, sessions: int = 6, commits: int = 120, count: int = 1) -> list[FeedItem]:
    """Fill the only partition until its first entries are gone. What was read before that is returned."""
    await world.create("first")
    early = await world.read(1)
    await world.fill(sessions, commits, count)
    info = await client_of(world.store).client.xinfo_stream(world.store.keys.partition(0).feed)
    assert info["entries-added"] > info["length"]
    return early


async def test_a_cursor_older_than_what_is_kept_is_refused(opened: Open):
    world = await opened(partitions=1, feed_keep=100)
    (early,) = await trimmed(world)
    with pytest.raises(CursorTooOld):
        async with world.following(early.cursor):
            pass


async def test_a_follower_that_is_too_slow_is_cut_not_skipped_ahead(opened: Open):
    world = await opened(partitions=1, feed_keep=100)
    await world.create("first")
    async with world.following(NOW) as following:
        await world.publish("first")
        assert len(await anext(following)) == 1
        await world.fill(6, 120)
        with pytest.raises(CursorTooOld):
            while True:
                await anext(following)


async def test_a_feed_that_is_gone_is_told(opened: Open):
    world = await opened(partitions=1)
    await world.create("s")
    (item,) = await world.read(1)
    await client_of(world.store).client.delete(world.store.keys.partition(0).feed)
    with pytest.raises(Diverged):
        async with world.following(item.cursor):
            pass


async def test_a_feed_with_another_past_is_told(opened: Open):
    world = await opened(partitions=1)
    await world.fill(1, 2)
    whole = await world.read(3)
    feed = world.store.keys.partition(0).feed
    entries = await client_of(world.store).client.xrange(feed)
    await client_of(world.store).client.xdel(feed, entries[-1][0])
    with pytest.raises(Diverged):
        async with world.following(whole[-1].cursor):
            pass


@pytest.mark.parametrize("count", [1, 3])
async def test_the_beginning_is_complete_although_the_feed_was_trimmed(
    opened: Open, monkeypatch: pytest.MonkeyPatch, count: int
):
    monkeypatch.setattr(feed_reader, "READ_LINES", 50)
    monkeypatch.setattr(feed_reader, "READS_AT_ONCE", 4)
    world = await opened(partitions=1, feed_keep=100)
    await trimmed(world, 10, 40, count)
    await world.delete("s003")
    whole = await world.read(len(world.events))
    assert sorted(map(told, whole)) == sorted(world.events)
    assert all(seqs == sorted(seqs) for seqs in by_session(whole).values())
    await resume_everywhere(world, whole)


@pytest.mark.parametrize("entries", [1, 100])
async def test_a_long_history_and_what_happens_meanwhile(opened: Open, monkeypatch: pytest.MonkeyPatch, entries: int):
    """Between any two items of a history sessions grow, come and go; a reader that comes back at each item misses
    nothing and hears nothing twice."""
    monkeypatch.setattr(feed_reader, "READ_LINES", 7)
    monkeypatch.setattr(feed_reader, "READS_AT_ONCE", 3)
    monkeypatch.setattr(backfill, "ENTRIES_AT_ONCE", entries)
    world = await opened(partitions=1, feed_keep=100)
    await trimmed(world, 8, 40)
    made = deleted = 0
    seen, cursor = dict[str, list[int]](), None
    async with asyncio.timeout(60):
        while len(cursor_items := await some_items(world, cursor, random.randint(1, 12))):
            for item in cursor_items:
                seen.setdefault(item.session_id, []).append(item.seq)
            cursor = cursor_items[-1].cursor
            if made < 40:
                made += 1
                await world.create(f"{random.choice(['a', 's004', 'z'])}-{made}")
                await world.publish(random.choice(list(world.seqs)), random.randint(1, 4))
                if made % 10 == 0:
                    deleted += 1
                    await world.delete(random.choice(list(world.seqs)))
    for name, last in world.seqs.items():
        assert seen[name] == list(range(1, last + 1)), name
    for name, seqs in seen.items():
        if name not in world.seqs:  # deleted: a part of it may have been told, in order, and then its end
            assert seqs[-1] == 0 and seqs[:-1] == list(range(1, len(seqs))), name


async def some_items(world: World, cursor: str | None, count: int) -> list[FeedItem]:
    """At most so many items, or none if nothing comes any more."""
    items = list[FeedItem]()
    async with world.following(cursor) as following:
        try:
            while len(items) < count:
                async with asyncio.timeout(QUIET_S * 4):
                    items += await anext(following)
        except TimeoutError:
            pass
    return items[:count]


async def test_several_trimmed_partitions_and_live_writers(opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed_reader, "READ_LINES", 20)
    monkeypatch.setattr(follower, "ENTRIES_AT_ONCE", 8)
    world = await opened(partitions=4, feed_keep=100)
    await world.fill(40, 30)
    writing = asyncio.create_task(live(world))
    items = list[FeedItem]()
    async with world.following() as following, asyncio.timeout(60):
        while not writing.done() or len(items) < len(world.events):
            items += await anext(following)
    await writing
    assert by_session(items) == {name: list(range(1, last + 1)) for name, last in world.seqs.items()}


async def live(world: World) -> None:
    for n in range(150):
        await world.publish(f"s{n % 40:03d}", 2)
        if n % 10 == 0:
            await world.create(f"t{n}")


async def test_an_empty_partition_at_now_is_complete_after_it_was_trimmed(opened: Open):
    world = await opened(partitions=2, feed_keep=100)
    home = world.store.keys.session("acme", "s").partition.number
    names = [f"n{n}" for n in range(1000) if world.store.keys.session("acme", f"n{n}").partition.number != home][:8]
    async with world.following(NOW) as following, asyncio.timeout(PATIENCE_S):
        await world.create("s")
        (item,) = await anext(following)
    for name in names:
        await world.create(name)
        await asyncio.gather(*(world.publish(name) for _ in range(5)))
        for _ in range(40):
            await world.publish(name)
    whole = await world.read(len(world.events) - 1, item.cursor)
    assert sorted([*map(told, whole), ("s", 1)]) == sorted(world.events)


async def test_a_follower_that_waits_asks_nothing(opened: Open):
    world = await opened(partitions=4)
    await world.fill(3, 2)

    async def scripts_run() -> int:
        stats = await client_of(world.store).client.info("commandstats")
        return stats["cmdstat_evalsha"]["calls"]

    async with world.following() as following:
        items = list[FeedItem]()
        while len(items) < len(world.events):
            items += await anext(following)
        waiting = asyncio.create_task(anext(following))
        await asyncio.sleep(QUIET_S)
        before = await scripts_run()
        await asyncio.sleep(QUIET_S * 4)
        assert await scripts_run() == before
        await world.publish("s001")
        assert len(await waiting) == 1


async def test_many_followers_share_the_connections(opened: Open):
    world = await opened()
    before = len(await client_of(world.store).client.client_list())
    streams = [world.following(NOW) for _ in range(100)]
    followings = await asyncio.gather(*(stream.__aenter__() for stream in streams))
    await world.create("s")
    async with asyncio.timeout(PATIENCE_S):
        for items in await asyncio.gather(*map(anext, followings)):
            assert [told(item) for item in items] == [("s", 1)]
    assert len(await client_of(world.store).client.client_list()) <= before + 16
    for stream in streams:
        await stream.__aexit__(None, None, None)


async def test_many_followers_that_come_back_and_have_missed_nothing_share_one_look(opened: Open):
    world = await opened(partitions=8)
    await world.fill(12, 2)
    cursor = (await world.read(len(world.events)))[-1].cursor

    async def commands_run() -> dict[str, int]:
        stats = await client_of(world.store).client.info("commandstats")
        return {name: stats[name]["calls"] for name in ("cmdstat_evalsha", "cmdstat_xrevrange")}

    before = await commands_run()
    streams = [world.following(cursor) for _ in range(100)]
    followings = await asyncio.gather(*(stream.__aenter__() for stream in streams))
    after = await commands_run()
    assert after["cmdstat_evalsha"] == before["cmdstat_evalsha"]
    assert after["cmdstat_xrevrange"] - before["cmdstat_xrevrange"] <= 2 * 8
    await world.create("s")
    async with asyncio.timeout(PATIENCE_S):
        for items in await asyncio.gather(*map(anext, followings)):
            assert [told(item) for item in items] == [("s", 1)]
    for stream in streams:
        await stream.__aexit__(None, None, None)


async def test_no_error_ends_the_search_for_lost_news(opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tenant_feed, "POLL_S", 0.05)
    world = await opened(partitions=4)
    world.store.stop_listening(world.store._feed._board)
    failures, newest = [RuntimeError("never seen before")] * 3, world.feed._newest

    async def failing() -> Any:
        if failures:
            raise failures.pop()
        return await newest()

    async with world.following() as following, asyncio.timeout(PATIENCE_S):
        monkeypatch.setattr(world.feed, "_newest", failing)
        waiting = asyncio.create_task(anext(following))
        await asyncio.sleep(0)
        await world.create("s1")
        assert [told(item) for item in await waiting] == [("s1", 1)]
    assert failures == []


async def test_news_cost_followers_that_are_busy_nothing():
    board, idle, late = follower.PartitionChanges(), asyncio.Event(), asyncio.Event()
    board.idle.add(idle)
    for partition in (3, 1, 3, 2):
        board.partition_changed(partition)
    assert (idle.is_set(), board.idle) == (True, set())
    board.idle.add(late)
    assert not late.is_set()
    assert [board.since(count) for count in range(5)] == [[2, 3, 1], [2, 3, 1], [2, 3], [2], []]


async def test_a_follower_that_leaves_while_it_waits_is_woken_no_more(opened: Open):
    world = await opened(partitions=4)
    async with world.following(NOW) as following:
        waiting = asyncio.create_task(anext(following))
        await asyncio.sleep(QUIET_S)
        assert world.feed._board.idle
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert not world.feed._board.idle
