"""Tails on a real engine: any offset, no gap, no duplicate, whoever writes and whatever announcement is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from eventstore.commit.listener import CommitListener
from eventstore.commit.records import Head, LogPage
from eventstore.domain import events as log
from eventstore.domain.errors import SessionDeleted, SessionNotFound, StoreUnavailable
from eventstore.domain.session import Session
from eventstore.event_store import EventStore
from eventstore.log.followed_session import RECENT_LINES, Chunk, FollowedSession, ReadPosition
from eventstore.log.notifications import CommitNotifier
from eventstore.log.subscriber import Subscriber
from eventstore.log.tail import CHUNK_LINES, Tails
from eventstore.redis_client.client import MAX_CONNECTIONS, RedisClient
from eventstore.redis_keys import Keys
from tests.integration.conftest import OpenStore
from tests.integration.stores import TENANT, create, generator, note, send, stand_in, until
from tests.unit.domain.given import event

pytestmark = pytest.mark.anyio
NEVER_S = 60.0


@pytest.fixture(autouse=True)
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail that only goes on because it polls would hang in these tests."""
    monkeypatch.setattr("eventstore.log.tail.POLL_S", NEVER_S)


class Reader:
    """A tail that is read in the background."""

    def __init__(self, store: EventStore, start: int, session_id: str = "s1") -> None:
        self.chunks: list[Chunk] = []
        self.end: str | None = None
        self.error: Exception | None = None
        self.task = asyncio.create_task(self._read(store.follow(TENANT, session_id, start)))

    async def _read(self, chunks: AsyncIterator[Chunk]) -> None:
        async with contextlib.aclosing(generator(chunks)):
            try:
                async for chunk in chunks:
                    self.chunks.append(chunk)
                    self.end = chunk.end
            except Exception as error:
                self.error = error

    @property
    def seqs(self) -> list[int]:
        """The numbers that the lines themselves carry, which must be those of their chunks."""
        found = list[int]()
        for chunk in self.chunks:
            numbers = [log.parse_line(line).seq for line in chunk.lines]
            assert numbers == list(range(chunk.first, chunk.next_from))
            found += numbers
        return found

    async def reached(self, last: int) -> None:
        await until(lambda: bool(self.chunks) and self.chunks[-1].next_from > last)

    async def ended(self) -> str | None:
        async with asyncio.timeout(15):
            await self.task
        return self.end


@pytest.fixture
async def follow() -> AsyncGenerator[Any]:
    readers = list[Reader]()

    def start(*arguments: Any) -> Reader:
        readers.append(Reader(*arguments))
        return readers[-1]

    yield start
    for reader in readers:
        reader.task.cancel()
    await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)


async def fill(store: EventStore, count: int, session_id: str = "s1") -> None:
    await send(store, *(note(n) for n in range(count)), session_id=session_id)


@pytest.mark.parametrize(("start", "expected"), [(1, 1), (4, 4), (-2, 5), (-99, 1), (0, 7), (7, 7), (9, 9)])
async def test_a_tail_starts_where_it_was_asked_to(store: EventStore, follow: Any, start: int, expected: int) -> None:
    await create(store)
    await fill(store, 5)
    reader = follow(store, start)
    await until(lambda: reader.chunks)
    await fill(store, 5)
    await reader.reached(11)
    assert reader.seqs == list(range(expected, 12))


async def test_the_first_chunk_comes_at_once_though_there_is_nothing(store: EventStore, follow: Any) -> None:
    await create(store)
    reader = follow(store, 0)
    await until(lambda: reader.chunks)
    assert reader.chunks == [Chunk(2, [])]


async def test_a_long_history_is_read_to_its_end_without_waiting(
    store: EventStore, opened: OpenStore, follow: Any
) -> None:
    await create(store)
    for _ in range(3):
        await fill(store, 900)
    reader = follow(await opened(start=False), 1)
    await reader.reached(2701)
    assert reader.seqs == list(range(1, 2702))
    assert max(len(chunk.lines) for chunk in reader.chunks) <= CHUNK_LINES


async def test_a_long_history_of_an_ended_session_is_read_to_its_end(
    store: EventStore, opened: OpenStore, follow: Any
) -> None:
    await create(store)
    for _ in range(3):
        await fill(store, 900)
    await send(store, event("session.completed"))
    reader = follow(await opened(start=False), 1)
    assert await reader.ended() == "terminal"
    assert reader.seqs == list(range(1, 2703))


async def test_a_tail_ends_with_its_session(store: EventStore, other: EventStore, follow: Any) -> None:
    await create(store)
    readers = [follow(chosen, 1) for chosen in (store, other)]
    await until(lambda: all(reader.chunks for reader in readers))
    await send(store, note(), event("session.completed"))
    for reader in readers:
        assert await reader.ended() == "terminal"
        assert reader.seqs == [1, 2, 3]


async def test_a_tail_behind_the_end_of_an_ended_session_ends_at_once(store: EventStore, follow: Any) -> None:
    await create(store)
    await send(store, event("session.completed"))
    reader = follow(store, 50)
    assert await reader.ended() == "terminal"
    assert reader.seqs == []


@pytest.mark.parametrize("who", ["the same process", "another process"])
async def test_a_tail_sees_the_deletion(store: EventStore, other: EventStore, follow: Any, who: str) -> None:
    await create(store)
    reader = follow(other, 1)
    await until(lambda: reader.chunks)
    await (other if who == "the same process" else store).delete(TENANT, "s1")
    assert await reader.ended() == "deleted"


async def test_tails_of_what_is_not_there_say_so(store: EventStore, follow: Any) -> None:
    await create(store, "gone")
    await store.delete(TENANT, "gone")
    missing, gone = follow(store, 1, "missing"), follow(store, 1, "gone")
    await asyncio.gather(missing.task, gone.task)
    assert isinstance(missing.error, SessionNotFound)
    assert isinstance(gone.error, SessionDeleted)
    assert store._notifier.followed == 0


async def test_fifty_tails_miss_nothing_of_two_writers(store: EventStore, other: EventStore, follow: Any) -> None:
    await create(store)
    await fill(store, 50)
    readers = list[tuple[Reader, int]]()

    async def join() -> None:
        for n in range(50):
            start = int.from_bytes(os.urandom(2)) % 80 + 1
            readers.append((follow((store, other)[n % 2], start), start))
            await asyncio.sleep(0.002)

    async def write(chosen: EventStore) -> None:
        for n in range(60):
            await send(chosen, *(note(n) for _ in range(1 + n % 4)))

    await asyncio.gather(join(), write(store), write(other))
    last = (await store.page(TENANT, "s1", -1, 1)).last_seq
    for reader, start in readers:
        await reader.reached(last)
        assert reader.seqs == list(range(start, last + 1))


async def test_a_lost_announcement_only_costs_time(
    store: EventStore, other: EventStore, follow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.POLL_S", 0.2)
    await create(store)
    other._tasks[0].cancel()  # it hears nothing any more
    reader = follow(other, 1)
    await until(lambda: reader.chunks)
    for n in range(5):
        await send(store, note(n))
        await reader.reached(2 + n)
    assert reader.seqs == [1, 2, 3, 4, 5, 6]


async def test_a_lost_subscription_is_made_again_and_what_was_missed_is_read(
    store: EventStore, other: EventStore, follow: Any, redis: Redis
) -> None:
    await create(store)
    reader = follow(other, 1)
    await until(lambda: reader.chunks)
    for n in range(5):
        await redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await send(store, note(n))
        await reader.reached(2 + n)
    assert reader.seqs == [1, 2, 3, 4, 5, 6]


async def test_a_strange_announcement_does_no_harm(
    store: EventStore, other: EventStore, follow: Any, redis: Redis
) -> None:
    await create(store)
    reader = follow(other, 1)
    await until(lambda: reader.chunks)
    channel = store.session_keys(TENANT, "s1").partition.wake
    for text in (b"", b"x", b"default/s1 many 1", b"\xff\xfe 1 2", b"default/s1 999 "):
        await redis.execute_command("SPUBLISH", channel, text)
    await send(store, note())
    await reader.reached(2)
    assert not any(task.done() for task in other._tasks)


async def test_a_slow_reader_is_asked_later_and_misses_nothing(store: EventStore) -> None:
    await create(store)
    chunks = generator(store.follow(TENANT, "s1", 1))
    assert (await anext(chunks)).next_from == 2
    for _ in range(4):
        await fill(store, 900)
    topic = store._notifier._topics[store.session_keys(TENANT, "s1").member]
    assert len(topic.recent) <= RECENT_LINES
    position = 2
    while position <= 3601:
        chunk = await anext(chunks)
        assert (chunk.first, 0 < len(chunk.lines) <= CHUNK_LINES) == (position, True)
        position = chunk.next_from
    await chunks.aclose()


async def test_who_watches_no_more_leaves_nothing_behind(store: EventStore, follow: Any) -> None:
    await create(store)
    readers = [follow(store, 1) for _ in range(10)]
    await until(lambda: all(reader.chunks for reader in readers))
    assert store._notifier.followed == 1
    for reader in readers:
        reader.task.cancel()
    await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)
    assert store._notifier.followed == 0
    assert not store._tails._fetching._running
    assert not store._tails._ahead._running


async def test_many_idle_tails_need_no_connections_of_their_own(store: EventStore, follow: Any, redis: Redis) -> None:
    names = [f"s{n}" for n in range(50)]
    await asyncio.gather(*(create(store, name) for name in names))
    readers = [follow(store, 1, names[n % 50]) for n in range(500)]
    await until(lambda: all(reader.chunks for reader in readers))
    assert len(await redis.client_list()) <= MAX_CONNECTIONS + 2
    await asyncio.gather(*(send(store, note(), session_id=name) for name in names))
    await until(lambda: all(reader.chunks[-1].next_from == 3 for reader in readers))


async def test_tails_of_one_session_share_what_they_read(
    store: EventStore, other: EventStore, follow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)
    readers = [follow(other, 1) for _ in range(20)]
    await until(lambda: all(reader.chunks for reader in readers))
    reads, raw_page = list[int](), other._log.raw_page

    async def counted(keys: Any, start: int, limit: int) -> LogPage:
        reads.append(start)
        return await raw_page(keys, start, limit)

    monkeypatch.setattr(other._log, "raw_page", counted)
    await send(store, note())
    for reader in readers:
        await reader.reached(2)
    assert reads == [2]


async def test_a_tail_that_is_woken_while_the_store_seems_away_looks_again(
    store: EventStore, other: EventStore, follow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)
    reader = follow(other, 1)
    await reader.reached(1)
    refused, raw_page = list[int](), other._log.raw_page

    async def away(keys: Any, start: int, limit: int) -> LogPage:
        if len(refused) < 3:
            refused.append(start)
            raise StoreUnavailable("it does not answer")
        return await raw_page(keys, start, limit)

    monkeypatch.setattr(other._log, "raw_page", away)
    await send(store, note())
    await reader.reached(2)
    assert refused == [2, 2, 2]


async def test_tails_that_begin_at_once_share_their_first_read(
    store: EventStore, follow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)
    reads, raw_page = list[int](), store._log.raw_page

    async def counted(keys: Any, start: int, limit: int) -> LogPage:
        reads.append(start)
        return await raw_page(keys, start, limit)

    monkeypatch.setattr(store._log, "raw_page", counted)
    readers = [follow(store, 1) for _ in range(20)]
    for reader in readers:
        await reader.reached(1)
    assert reads == [1]


async def test_a_tail_that_shares_an_older_read_is_not_told_that_its_session_is_missing(
    store: EventStore, other: EventStore, follow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, raw_page = asyncio.Event(), asyncio.Event(), other._log.raw_page

    async def late(keys: Any, start: int, limit: int, **more: Any) -> LogPage:
        page = await raw_page(keys, start, limit, **more)
        if not asked.is_set():
            asked.set()
            await answer.wait()
        return page

    monkeypatch.setattr(other._log, "raw_page", late)
    monkeypatch.setattr(other._notifier, "announced", lambda *_: None)  # the news are on their way
    first = follow(other, 1)
    await asked.wait()
    await create(store)
    second = follow(other, 1)
    await asyncio.sleep(0.05)
    answer.set()
    for reader in (first, second):
        await reader.reached(1)


async def test_many_readers_that_leave_one_by_one_take_little_time() -> None:
    topic = FollowedSession()
    waiting = [asyncio.create_task(topic.changed(ReadPosition(1), 60)) for _ in range(20_000)]
    await asyncio.sleep(0)
    began = time.monotonic()
    for task in reversed(waiting):
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert time.monotonic() - began < 5
    assert not topic._waiting


async def test_an_announcement_may_have_more_fields_than_we_know() -> None:
    heard = list[tuple[str, int | None]]()

    class Listening(CommitListener):
        def deadline_changed(self, member: str, due: int | None) -> None:
            heard.append((member, due))

    notifier = CommitNotifier(Keys(4))
    notifier.add(Listening())
    subscriber = Subscriber(RedisClient("redis://nowhere"), Keys(4), notifier)
    for data in (b"default/s1 5 77", b"default/s2 5  more", b"default/s3 deleted  and more"):
        subscriber._announced(0, data)
    assert heard == [("default/s1", 77), ("default/s2", None), ("default/s3", None)]


async def test_a_log_that_is_lost_under_a_tail_is_told_and_not_asked_for_for_ever(
    store: EventStore, other: EventStore, follow: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.PATIENCE_S", 0.1)
    await create(store)
    reader = follow(other, 1)
    await until(lambda: reader.chunks)
    keys = store.session_keys(TENANT, "s1")
    await redis.delete(keys.events)
    await redis.hset(keys.head, "seq", 5)
    other._notifier.announced(keys.partition.number, keys.member, 5, None)
    await reader.ended()
    assert isinstance(reader.error, StoreUnavailable)
    await redis.flushall()


class SlowLog:
    """A log whose answers are on their way until they are let go; each holds what was there when it was asked."""

    def __init__(self) -> None:
        self.last_seq = 1
        self.slow = False
        self.gates = list[asyncio.Event]()

    async def page(self, keys: Any, start: int, limit: int) -> LogPage:
        return LogPage(0, "r", "running", self.last_seq, None, start, [])

    async def raw_page(self, keys: Any, start: int, limit: int) -> LogPage:
        lines = [b"%d" % n for n in range(start, self.last_seq + 1)]
        page = LogPage(0, "r", "running", self.last_seq, None, start, lines)
        if self.slow:
            self.gates.append(asyncio.Event())
            await self.gates[-1].wait()
        return page


class NoStretches:
    """Whoever reads on asks the log."""

    async def read(self, *_: Any) -> None:
        return None


async def test_a_reader_takes_no_answer_that_is_older_than_what_it_has_heard() -> None:
    """One reader is fetching when a commit is announced; another, who heard of it, joins just then."""
    keys = Keys(1)
    hub, log_, session = CommitNotifier(keys), SlowLog(), keys.session(TENANT, "s1")
    tails = Tails(stand_in(log_), hub, stand_in(NoStretches()))
    early, late = generator(tails.follow(session, 2)), generator(tails.follow(session, 2))
    await anext(early)
    await anext(late)
    log_.slow = True
    one = asyncio.create_task(anext(early))
    await asyncio.sleep(0)
    hub.announcements_missed()
    await until(lambda: len(log_.gates) == 1)
    log_.last_seq = 2
    hub.announced(0, session.member, 2, None)
    two = asyncio.create_task(anext(late))
    await asyncio.sleep(0)

    async def answering() -> None:
        while True:
            for gate in log_.gates:
                gate.set()
            await asyncio.sleep(0)

    answers = asyncio.create_task(answering())
    async with asyncio.timeout(5):
        assert [(await task).lines for task in (one, two)] == [[b"2"], [b"2"]]
    answers.cancel()
    await early.aclose()
    await late.aclose()


async def test_an_end_that_the_store_has_lost_again_is_not_waited_for_in_a_circle() -> None:
    """An engine that took over may lack the newest commits, the end of the session among them."""
    keys, log_ = Keys(1), SlowLog()
    hub, session = CommitNotifier(keys), keys.session(TENANT, "s1")
    chunks = generator(Tails(stand_in(log_), hub, stand_in(NoStretches())).follow(session, 2))
    await anext(chunks)
    log_.slow = True
    hub.committed(session, Head("r", Session(seq=2, status="completed")), [])
    waiting = asyncio.create_task(anext(chunks))
    for _ in range(50):
        for gate in log_.gates:
            gate.set()
        await asyncio.sleep(0)
    assert len(log_.gates) <= 2
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await chunks.aclose()
