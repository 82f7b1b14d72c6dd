"""A store that has lost what it acknowledged says so: to followers, to tails, to operators. Nothing is mixed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from eventstore.commit.listener import CommitListener
from eventstore.domain.errors import Diverged, SessionNotFound, StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.feed import divergence
from eventstore.feed.cursor import NONE
from eventstore.feed.divergence import DivergenceLog, LostSession
from eventstore.feed.entries import entry_text
from eventstore.feed.tenant_feed import FeedItem
from projections.projector.generation import PROJECT
from tests.integration.losses import WAYS, Losing
from tests.integration.models import check, session_ids, snapshot
from tests.integration.stores import (
    TENANT,
    chosen,
    client_of,
    close,
    create,
    models_of,
    note,
    open_at,
    send,
    stored,
    until,
)

pytestmark = pytest.mark.anyio
PARTITIONS = 4
NEVER_S = 600.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def nobody_looks_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is noticed is noticed because something happened, not because time passed."""
    for name in (
        "eventstore.log.tail.POLL_S",
        "eventstore.feed.tenant_feed.POLL_S",
        "eventstore.feed.divergence.EVERY_S",
    ):
        monkeypatch.setattr(name, NEVER_S)


@pytest.fixture(params=WAYS)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Losing]:
    async with WAYS[request.param](tmp_path) as losing:
        yield losing


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncGenerator[Losing]:
    async with WAYS["old copy"](tmp_path) as losing:
        yield losing


class Stores:
    """Opens stores, each as a process of its own would."""

    def __init__(self, engine: Losing) -> None:
        self.engine = engine
        self.open_ones = list[EventStore]()

    async def open(self, *, start: bool = True) -> EventStore:
        self.open_ones.append(await open_at(self.engine.url, chosen(partitions=PARTITIONS), start=start))
        return self.open_ones[-1]

    async def lose(self) -> None:
        """The engine loses what it was not to keep, and answers again."""
        await self.engine.lose()
        for store in self.open_ones:
            await until(lambda store=store: answers(store))


async def answers(store: EventStore) -> bool:
    try:
        return bool(await client_of(store).command("PING"))
    except StoreUnavailable:
        return False


@pytest.fixture
async def stores(engine: Losing) -> AsyncGenerator[Stores]:
    opened = Stores(engine)
    yield opened
    for store in opened.open_ones:
        await close(store)


Following = AsyncGenerator[list[FeedItem]]


def following(store: EventStore, cursor: str | None = None) -> Following:
    return cast("Following", store.follow_tenant(TENANT, cursor))


async def take(items: Following, count: int) -> list[FeedItem]:
    found = list[FeedItem]()
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await anext(items)
    assert len(found) == count
    return found


async def read(store: EventStore, count: int, cursor: str | None = None) -> list[FeedItem]:
    async with aclosing(following(store, cursor)) as items:
        return await take(items, count)


async def refused(store: EventStore, cursor: str) -> Diverged:
    with pytest.raises(Diverged) as caught:
        await read(store, 1, cursor)
    return caught.value


def texts(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["data"]["text"] for line in lines if b"note.taken" in line]


async def lose_three(stores: Stores, store: EventStore) -> str:
    """Session s1 has two events, loses three more, and has a third again. Gives the cursor after all that was lost."""
    await create(store)
    await send(store, note("kept"))
    await stores.engine.keep()
    await send(store, note("lost 1"), note("lost 2"))
    await send(store, note("lost 3"))
    cursor = (await read(store, 5))[-1].cursor
    await stores.lose()
    return cursor


# Cursors


async def test_a_cursor_into_what_was_lost_hears_where_to_go_on(stores: Stores) -> None:
    store = await stores.open(start=False)
    cursor = await lose_three(stores, store)
    await store._monitor.check()
    await send(store, note("other"))
    error = await refused(store, cursor)
    assert error.members.keys() == {"cursor", "sessions"}, "nothing of what is anybody's"
    assert error.members["sessions"] == [{"session_id": "s1", "acknowledged_seq": 5, "last_common_seq": 2}]
    (item,) = await read(store, 1, error.members["cursor"])
    assert (item.session_id, item.seq, texts([item.line or b""])) == ("s1", 3, ["other"])


async def test_a_cursor_from_before_the_loss_goes_on_as_if_nothing_were(stores: Stores) -> None:
    store = await stores.open(start=False)
    await create(store)
    (first,) = await read(store, 1)
    await stores.engine.keep()
    await send(store, note("lost"))
    await stores.lose()
    await send(store, note("other"))
    (item,) = await read(store, 1, first.cursor)
    assert texts([item.line or b""]) == ["other"]


async def test_a_cursor_tells_it_though_the_server_that_wrote_is_gone(stores: Stores) -> None:
    writer = await stores.open(start=False)
    cursor = await lose_three(stores, writer)
    other = await stores.open(start=False)
    assert await DivergenceLog(client_of(other)).all() == []
    error = await refused(other, cursor)
    (loss,) = await DivergenceLog(client_of(other)).all()
    assert loss.partition == other.session_keys(TENANT, "s1").partition.number
    assert (loss.sessions, error.members["sessions"]) == ([], [])
    await refused(other, cursor)
    assert await DivergenceLog(client_of(other)).all() == [loss], "recorded once"


async def test_an_open_stream_is_cut_and_tells_nothing_that_came_after_the_loss(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open(start=False)
    await create(store)
    await stores.engine.keep()
    await send(store, note("lost 1"), note("lost 2"))
    async with aclosing(following(store)) as items:
        seen = await take(items, 3)
        await stores.lose()
        await send(other, note("other 1"), note("other 2"), note("other 3"))
        with pytest.raises(Diverged):
            async with asyncio.timeout(20):
                seen += await anext(items)
    assert texts([item.line or b"" for item in seen]) == ["lost 1", "lost 2"]
    error = await refused(store, seen[-1].cursor)
    assert [item.seq for item in await read(store, 3, error.members["cursor"])] == [2, 3, 4]


async def test_a_partition_that_lost_nothing_goes_on_where_it_was(stores: Stores) -> None:
    store = await stores.open(start=False)
    names = [f"s{n}" for n in range(12)]
    for name in names:
        await create(store, name)
    await stores.engine.keep()
    await send(store, note("lost"), session_id="s3")
    cursor = (await read(store, 13))[-1].cursor
    await stores.lose()
    for name in names:
        await send(store, note("other"), session_id=name)
    error = await refused(store, cursor)
    items = await read(store, 12, error.members["cursor"])
    assert sorted((item.session_id, item.seq) for item in items) == sorted((name, 2) for name in names)


async def test_a_reader_in_the_middle_of_a_commit_goes_on_before_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await stores.open(start=False)
    await create(store)
    await stores.engine.keep()
    await send(store, *(note(f"lost {n}") for n in range(5)))
    cursor = (await read(store, 6))[2].cursor
    await stores.lose()
    await send(store, note("other"))
    error = await refused(store, cursor)
    assert [item.seq for item in await read(store, 1, error.members["cursor"])] == [2]


# Tails


class Tail:
    """A tail that is read in the background."""

    def __init__(self, store: EventStore, start: int = 1) -> None:
        self.lines = list[bytes]()
        self.error: Exception | None = None
        self.task = asyncio.create_task(self._read(store.follow(TENANT, "s1", start)))

    async def _read(self, chunks: AsyncIterator[Any]) -> None:
        try:
            async for chunk in chunks:
                self.lines += chunk.lines
        except Exception as error:
            self.error = error

    async def cut(self) -> Exception | None:
        async with asyncio.timeout(20):
            await self.task
        return self.error


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("own", [True, False])
async def test_a_tail_is_cut_whoever_writes_next_and_however_much(stores: Stores, own: bool, count: int) -> None:
    store, other = await stores.open(), await stores.open(start=False)
    await create(store)
    await stores.engine.keep()
    await send(store, note("lost 1"), note("lost 2"))
    tail = Tail(store)
    await until(lambda: len(tail.lines) == 3)
    await stores.lose()
    await send(store if own else other, *(note(f"other {n}") for n in range(count)))
    assert isinstance(await tail.cut(), Diverged)
    assert texts(tail.lines) == ["lost 1", "lost 2"]


async def test_who_comes_after_the_loss_is_told_nothing_that_a_process_remembers(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open(start=False)
    await create(store)
    await stores.engine.keep()
    early = Tail(store)
    await until(lambda: len(early.lines) == 1)
    await send(store, note("lost 1"), note("lost 2"))
    await until(lambda: len(early.lines) == 3)
    await stores.lose()
    late = Tail(store)
    await until(lambda: late.lines)
    await send(other, note("other 1"), note("other 2"), note("other 3"))
    await until(lambda: len(late.lines) == 4)
    assert texts(late.lines) == ["other 1", "other 2", "other 3"]
    late.task.cancel()


# Writing, and read models


async def test_a_process_goes_on_writing_on_what_is_there(stores: Stores) -> None:
    store = await stores.open()
    await lose_three(stores, store)
    await send(store, note("other 1"))
    await send(store, note("other 2"))
    events = await stored(store)
    assert [event["data"]["text"] for event in events[1:]] == ["kept", "other 1", "other 2"]


async def test_read_models_show_what_is_there(stores: Stores) -> None:
    store = await stores.open()
    models = models_of(store)
    await create(store)
    await create(store, "s2")
    assert len(await session_ids(models)) == 2
    await stores.engine.keep()
    await send(store, note("lost"))
    await create(store, "gone")
    assert len(await session_ids(models)) == 3
    await stores.lose()
    assert sorted(await session_ids(models)) == ["s1", "s2"]
    await send(store, note("other"), session_id="s2")
    assert (await snapshot(models, "s1"))["seq"] == 1
    with pytest.raises(SessionNotFound):
        await snapshot(models, "gone")
    await check(models, store)


async def test_a_projector_writes_nothing_that_was_lost_while_it_folded(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await stores.open(start=False)
    models = models_of(store)
    await create(store)
    await session_ids(models)
    await stores.engine.keep()
    await send(store, note("lost 1"), note("lost 2"))
    run, held = client_of(store).run, asyncio.Event()

    async def lose_first(call: Any) -> Any:
        if call.script is PROJECT and not held.is_set():
            held.set()
            await stores.lose()
        return await run(call)

    monkeypatch.setattr(client_of(store), "run", lose_first)
    await session_ids(models)
    assert held.is_set()
    await send(store, note("other"))
    await session_ids(models)
    assert (await snapshot(models, "s1"))["seq"] == 2
    await check(models, store)


# What a server notices, and what is recorded


async def test_a_server_notices_by_itself_and_names_what_it_knows(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    store = await stores.open()
    counted = list[int]()

    class Counting(CommitListener):
        def loss_found(self, partitions: int) -> None:
            counted.append(partitions)

    store.listen(Counting())
    await lose_three(stores, store)
    records = DivergenceLog(client_of(store))
    await until(lambda: records.all())
    (loss,) = await records.all()
    assert loss.sessions == [LostSession(TENANT, "s1", acknowledged=5, common=2)]
    newest = await client_of(store).client.xrevrange(store.keys.partition(loss.partition).feed, count=1)
    assert entry_text(loss.common).encode() == newest[0][0]
    await until(lambda: counted == [1])
    lines = [record.message for record in caplog.records if "has lost acknowledged events" in record.message]
    assert len(lines) == 1
    await store._monitor.check()
    assert (len(await records.all()), counted) == (1, [1]), "noticed once"


async def test_a_loss_is_noticed_though_newer_commits_came_before_anybody_looked(stores: Stores) -> None:
    store = await stores.open(start=False)
    await lose_three(stores, store)
    for _ in range(3):
        await send(store, note("other"))
    await store._monitor.check()
    (loss,) = await DivergenceLog(client_of(store)).all()
    assert loss.sessions == [LostSession(TENANT, "s1", acknowledged=5, common=2)]


async def test_sessions_and_deletions_that_were_lost_whole_are_named(stores: Stores) -> None:
    store = await stores.open(start=False)
    await create(store)
    await stores.engine.keep()
    await create(store, "gone")
    await store.delete(TENANT, "s1")
    await stores.lose()
    await store._monitor.check()
    found = [one for loss in await DivergenceLog(client_of(store)).all() for one in loss.sessions]
    assert sorted((one.session_id, one.acknowledged, one.common) for one in found) == [("gone", 1, 0), ("s1", 0, 0)]


async def test_what_was_acknowledged_by_an_operator_is_not_recorded_again(stores: Stores) -> None:
    store = await stores.open(start=False)
    cursor = await lose_three(stores, store)
    await store._monitor.check()
    records = DivergenceLog(client_of(store))
    assert await records.all()
    await records.acknowledge(await records.all(), await records.now())
    assert await records.all() == []
    await refused(store, cursor)
    assert await records.all() == []


async def test_what_was_noticed_after_it_was_told_is_not_forgotten(plain: Losing) -> None:
    store = await Stores(plain).open(start=False)
    records = DivergenceLog(client_of(store))
    soon = await records.now() + 60_000  # what is lost is newer than what anybody has acknowledged

    async def lose(number: int, *names: str) -> None:
        sessions = [LostSession(TENANT, name, 5, 2) for name in names]
        await records.add([divergence.Divergence(number, 0, (1, 0), (soon, 0), sessions)])

    await lose(0, "told")
    await lose(1, "told-too")
    told, until_then = await records.all(), await records.now()
    await lose(1, "named-since")
    await lose(2, "noticed-since")
    await records.acknowledge(told, until_then)
    left = {loss.partition: [one.session_id for one in loss.sessions] for loss in await records.all()}
    assert left == {1: ["named-since"], 2: ["noticed-since"]}
    await records.acknowledge(await records.all(), until_then)
    assert await client_of(store).command("HKEYS", "layby:diverged") == [b"acknowledged"]
    await close(store)


async def test_a_flushed_store_is_told_and_goes_on(plain: Losing) -> None:
    stores = Stores(plain)
    store = await stores.open(start=False)
    await create(store)
    (item,) = await read(store, 1)
    tail = Tail(store)
    await until(lambda: len(tail.lines) == 1)
    await client_of(store).command("FLUSHALL")
    error = await refused(store, item.cursor)
    assert [loss.common for loss in await DivergenceLog(client_of(store)).all()] == [NONE]
    await store._monitor.check()
    assert isinstance(await tail.cut(), Diverged)
    assert int(await client_of(store).command("HGET", "layby:store", "partitions")) == PARTITIONS
    with pytest.raises(SessionNotFound):
        await send(store, note("too late"))
    await create(store)
    assert [one.seq for one in await read(store, 1, error.members["cursor"])] == [1]
    await close(store)


async def test_nothing_is_noticed_where_nothing_was_lost(plain: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several servers, sessions that come and go, a feed that is trimmed, more commits than are remembered."""
    monkeypatch.setattr(divergence, "REMEMBERED", 16)
    settings = chosen(partitions=2, feed_keep=100)
    servers = [await open_at(plain.url, settings, start=False) for _ in range(2)]
    await create(servers[0], "early")
    await servers[0]._monitor.check()

    async def write(number: int) -> None:
        store = servers[number % 2]
        await create(store, f"s{number}")
        for _ in range(60):
            await send(store, note(), session_id=f"s{number}")
        if number % 3 == 0:
            await store.delete(TENANT, f"s{number}")

    await asyncio.gather(*map(write, range(12)))
    for store in servers:
        store._monitor.schedule_check()
        await store._monitor.check()
        assert await DivergenceLog(client_of(store)).all() == []
        await close(store)


async def test_the_record_stays_small(plain: Losing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "MOST_FIELDS", 8)
    store = await Stores(plain).open(start=False)
    records = DivergenceLog(client_of(store))
    for number in range(12):
        sessions = [LostSession(TENANT, f"s{n}", 5, 2) for n in range(12)]
        await records.add([divergence.Divergence(number, 0, (1, 0), (1 << 44, 0), sessions)])
    assert await client_of(store).command("HLEN", "layby:diverged") == 8
    assert len(await records.all()) == 5
    await close(store)


# What operators see


def layby(*arguments: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("LAYBY_")}
    command = [sys.executable, "-c", "from cli.main import main; main()", "verify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=known)


async def test_verify_names_it_until_it_is_acknowledged(stores: Stores) -> None:
    store = await stores.open(start=False)
    await lose_three(stores, store)
    await store._monitor.check()
    done = await asyncio.to_thread(layby, "--redis-url", stores.engine.url)
    assert (done.returncode, done.stderr) == (3, "")
    partition, session, summary = done.stdout.splitlines()
    number = store.session_keys(TENANT, "s1").partition.number
    assert partition.startswith(f"partition {number} has lost acknowledged events, after ")
    assert session == "  s1 has lost events, at least 3 to 5"
    assert summary == "1 session, 2 events: intact; acknowledged events were lost in 1 partition"
    done = await asyncio.to_thread(layby, "--tenant", "other", "--redis-url", stores.engine.url)
    assert (done.returncode, "s1" in done.stdout) == (3, False)
    done = await asyncio.to_thread(layby, "--acknowledge", "--redis-url", stores.engine.url)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, session)
    done = await asyncio.to_thread(layby, "--redis-url", stores.engine.url)
    assert (done.returncode, done.stdout) == (0, "1 session, 2 events: intact\n")
