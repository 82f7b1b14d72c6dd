"""Long histories: read in stretches, and whatever is odd in them is told as any page tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.asyncio import Redis

from eventstore.domain.errors import Diverged, StoreUnavailable
from eventstore.domain.events import parse_line
from eventstore.event_store import EventStore
from eventstore.log.followed_session import Chunk
from eventstore.log.range_reader import FIRST_LINES, RANGE_BYTES, RANGE_LINES
from eventstore.log.reader import PAGE_BYTES
from tests.integration.conftest import OpenStore
from tests.integration.stores import TENANT, create, generator, note, send, stream

pytestmark = pytest.mark.anyio


@pytest.fixture
async def reading(store: EventStore, opened: OpenStore) -> EventStore:
    """Another process, which remembers nothing of what was written; the session has 2,701 events."""
    await create(store)
    for _ in range(3):
        await send(store, *(note(n) for n in range(900)))
    return await opened(start=False)


def follow(store: EventStore) -> AsyncGenerator[Chunk]:
    return generator(store.follow(TENANT, "s1", 1))


async def at_rest(store: EventStore) -> None:
    """Wait until nothing is read ahead."""
    while store._tails._ahead._running:
        await asyncio.gather(*store._tails._ahead._running.values())


def counted(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each read by the script begins, from now on."""
    reads, raw_page = list[int](), store._log.raw_page

    async def count(keys: Any, start: int, limit: int, **more: Any) -> Any:
        reads.append(start)
        return await raw_page(keys, start, limit, **more)

    monkeypatch.setattr(store._log, "raw_page", count)
    return reads


async def test_a_tail_asks_the_script_for_the_beginning_and_a_short_rest_and_reads_stretches_between(
    reading: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, chunks, seqs = counted(reading, monkeypatch), follow(reading), list[int]()
    while len(seqs) < 2701:
        chunk = await anext(chunks)
        assert len(chunk.lines) <= (RANGE_LINES if seqs else FIRST_LINES)
        seqs += [parse_line(line).seq for line in chunk.lines]
    rest = 2702 - (2701 - FIRST_LINES) % RANGE_LINES
    assert (seqs, reads) == (list(range(1, 2702)), [1, rest])
    await chunks.aclose()


async def test_pages_ask_the_script_once_and_read_on_in_stretches(
    reading: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, page = counted(reading, monkeypatch), await reading.page(TENANT, "s1", 1, 100)
    lines = [*page.lines]
    while len(lines) < 2701:
        page = await reading.page_after(TENANT, "s1", page, 600)
        assert 0 < len(page.lines) <= RANGE_LINES
        lines += page.lines
    assert ([parse_line(line).seq for line in lines], reads) == (list(range(1, 2702)), [1])
    assert (page.last_seq, (await reading.page_after(TENANT, "s1", page, 600)).lines) == (2701, [])


async def test_no_page_is_larger_than_was_asked_for(reading: EventStore) -> None:
    page = await reading.page(TENANT, "s1", 1, 100)
    for limit in (5, 20, 1):
        page = await reading.page_after(TENANT, "s1", page, limit)
        assert len(page.lines) == limit


async def test_a_chunk_stays_small_where_lines_become_long(store: EventStore, opened: OpenStore) -> None:
    await create(store)
    await send(store, *(note(n) for n in range(1_200)))
    for _ in range(4):
        await send(store, *(note("x" * 20_000) for _ in range(20)))
    await send(store, *(note(n) for n in range(1_200)))
    chunks, sizes, seqs = follow(await opened(start=False)), list[int](), list[int]()
    while len(seqs) < 2481:
        chunk = await anext(chunks)
        seqs += [parse_line(line).seq for line in chunk.lines]
        sizes.append(sum(map(len, chunk.lines)))
    assert seqs == list(range(1, 2482))
    assert max(sizes) <= PAGE_BYTES
    turn = (1_201 - FIRST_LINES) // RANGE_LINES + 1  # the chunk in which they do
    assert RANGE_BYTES - 21_000 < sizes[turn] <= RANGE_BYTES
    await chunks.aclose()


async def test_the_next_stretch_is_read_while_the_last_one_is_sent(
    reading: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.PATIENCE_S", 0.1)
    chunks = follow(reading)
    await anext(chunks)
    await at_rest(reading)
    await redis.delete(reading.session_keys(TENANT, "s1").events)
    assert len((await anext(chunks)).lines) == RANGE_LINES
    with pytest.raises(StoreUnavailable):
        await anext(chunks)
    await chunks.aclose()
    await redis.flushall()


async def test_what_was_read_ahead_is_not_told_once_it_is_in_doubt(
    reading: EventStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventstore.log.tail.PATIENCE_S", 0.1)
    chunks = follow(reading)
    await anext(chunks)
    await at_rest(reading)
    await redis.delete(reading.session_keys(TENANT, "s1").events)
    reading._notifier.announcements_missed()
    with pytest.raises(StoreUnavailable):
        await anext(chunks)
    await redis.flushall()


async def test_a_deletion_ends_a_stream_in_the_middle_of_its_history(reading: EventStore, store: EventStore) -> None:
    chunks = follow(reading)
    await anext(chunks)
    await store.delete(TENANT, "s1")
    ends = [chunk.end async for chunk in chunks]
    assert ends[-1] == "deleted"
    assert len(ends) <= 2


async def test_a_past_that_changes_in_the_middle_of_a_history_cuts_its_stream(
    reading: EventStore, redis: Redis
) -> None:
    """The event before what comes next has another hash by now."""
    events = reading.session_keys(TENANT, "s1").events
    chunks = follow(reading)
    last = (await anext(chunks)).next_from - 1
    await at_rest(reading)
    after = (await anext(chunks)).next_from - 1
    assert after > last
    await at_rest(reading)
    kept = await stream(redis, events, "-", f"{after + RANGE_LINES - 1}-0")
    rest = await stream(redis, events, f"{after + RANGE_LINES}-0")
    await redis.delete(events)
    for entry_id, fields in [*kept, (rest[0][0], {**rest[0][1], b"h": b"other"}), *rest[1:]]:
        await redis.xadd(events, {**fields}, entry_id)
    await anext(chunks)
    with pytest.raises(Diverged):
        await anext(chunks)
    await redis.flushall()


async def test_readers_at_one_place_share_a_stretch(reading: EventStore) -> None:
    one, two = follow(reading), follow(reading)
    await asyncio.gather(anext(one), anext(two))
    first, second = await asyncio.gather(anext(one), anext(two))
    assert first is second
    await one.aclose()
    await two.aclose()
