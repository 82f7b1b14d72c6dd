"""Readers who can take what comes at once are handed it; all others are woken, and ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from eventstore.commit.records import Line
from eventstore.domain.events import GENESIS, chain
from eventstore.log.followed_session import AT_ONCE, HELD_BACK_S, RECENT_BYTES, Chunk, FollowedSession, ReadPosition

pytestmark = pytest.mark.anyio


def lines(first: int, last: int, before: str = GENESIS) -> list[Line]:
    found = list[Line]()
    for seq in range(first, last + 1):
        text = b'{"seq":%d}' % seq
        before = chain(before, text)
        found.append(Line(seq, "a.b", text, before))
    return found


class Reader:
    """Waits at a place, and takes what it is handed as long as it is `ready`."""

    def __init__(self, topic: FollowedSession, seq: int, hash_: str = "") -> None:
        self.taken = list[Chunk]()
        self.ready = True
        self.place = ReadPosition(seq, hash_, self._deliver)
        self.task = asyncio.create_task(topic.changed(self.place, 60))

    def _deliver(self, chunk: Chunk) -> bool:
        if self.ready:
            self.taken.append(chunk)
        return self.ready

    @property
    def texts(self) -> list[bytes]:
        return [line for chunk in self.taken for line in chunk.lines]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def commit(topic: FollowedSession, new: list[Line]) -> None:
    topic.remember(new)
    topic.heard(new[-1].seq)


async def test_a_reader_that_is_ready_is_handed_each_line_once_and_is_not_woken():
    topic, all_lines = FollowedSession(), lines(1, 5)
    reader = Reader(topic, 1, GENESIS)
    await asyncio.sleep(0)
    for line in all_lines:
        commit(topic, [line])
    await asyncio.sleep(0)
    assert reader.texts == [line.text for line in all_lines]
    assert (reader.place.seq, reader.place.hash) == (6, all_lines[-1].hash)
    assert not reader.task.done()
    await reader.end()


async def test_readers_at_one_place_are_handed_the_same_chunk():
    topic = FollowedSession()
    one, other, behind = Reader(topic, 2), Reader(topic, 2), Reader(topic, 1)
    await asyncio.sleep(0)
    commit(topic, lines(1, 3))
    assert one.taken[0] is other.taken[0]
    assert behind.taken[0].first == 1
    for reader in (one, other, behind):
        await reader.end()


async def test_a_reader_that_is_not_ready_is_woken_where_it_stood():
    topic = FollowedSession()
    reader = Reader(topic, 1)
    await asyncio.sleep(0)
    commit(topic, lines(1, 1))
    reader.ready = False
    commit(topic, lines(1, 2)[1:])
    await reader.task
    assert len(reader.taken) == 1
    assert topic.handed_over(reader.place) == Chunk(2, [b'{"seq":2}'])


async def test_a_reader_of_another_past_is_handed_nothing():
    topic = FollowedSession()
    reader = Reader(topic, 3, "f" * 64)
    await asyncio.sleep(0)
    commit(topic, lines(1, 3))
    await reader.task
    assert not reader.taken


@pytest.mark.parametrize("tell", [lambda topic: topic.heard(1), FollowedSession.doubt], ids=["others", "doubt"])
async def test_news_of_others_and_doubt_wake_even_who_is_ready(tell: Callable[[FollowedSession], None]):
    topic = FollowedSession()
    reader = Reader(topic, 1)
    await asyncio.sleep(0)
    tell(topic)
    await reader.task
    assert not reader.taken


async def test_the_end_is_told_by_the_store():
    topic = FollowedSession()
    reader = Reader(topic, 1)
    await asyncio.sleep(0)
    topic.ended = True
    commit(topic, lines(1, 1))
    await reader.task
    assert not reader.taken


async def test_very_many_readers_let_others_have_their_turn():
    topic, count = FollowedSession(), 3 * AT_ONCE + 1
    readers = [Reader(topic, 1) for _ in range(count)]
    await asyncio.sleep(0)
    commit(topic, lines(1, 1))
    assert sum(bool(reader.taken) for reader in readers) == AT_ONCE
    commit(topic, lines(1, 2)[1:])
    for _ in range(4):
        await asyncio.sleep(0)
    assert all(reader.texts == [b'{"seq":1}', b'{"seq":2}'] for reader in readers)
    await asyncio.gather(*(reader.end() for reader in readers))


async def test_who_has_gone_is_handed_nothing():
    topic = FollowedSession()
    reader, other = Reader(topic, 1), Reader(topic, 1)
    await asyncio.sleep(0)
    reader.task.cancel()
    commit(topic, lines(1, 1))
    assert not reader.taken and other.taken
    await other.end()


async def test_an_announcement_waits_for_the_answer_to_the_commit_that_it_is_of():
    topic, new = FollowedSession(), lines(1, 2)
    reader = Reader(topic, 1, GENESIS)
    await asyncio.sleep(0)
    topic.committing(under_way=True)
    topic.announced(1)  # often a moment before the answer
    assert (topic.last_seq, reader.taken) == (0, [])
    commit(topic, new[:1])
    topic.committing(under_way=False)
    assert reader.texts == [new[0].text]
    await asyncio.sleep(0)
    assert not reader.task.done()  # nobody had to be woken
    await reader.end()


async def test_an_announcement_counts_when_the_commit_came_to_nothing_or_was_of_others():
    topic = FollowedSession()
    reader = Reader(topic, 1, GENESIS)
    await asyncio.sleep(0)
    topic.committing(under_way=True)
    topic.announced(3)
    topic.announced(2)
    topic.committing(under_way=False)
    await reader.task
    assert (topic.last_seq, reader.taken) == (3, [])
    topic.committing(under_way=False)  # of a commit that began before anybody followed
    topic.announced(4)
    assert topic.last_seq == 4


async def test_an_announcement_that_was_held_back_is_told_once_though_the_store_goes_back_behind_it():
    topic = FollowedSession()
    topic.learned(5, 0, ended=False)
    topic.committing(under_way=True)
    topic.announced(9)
    topic.committing(under_way=False)
    assert topic.last_seq == 9
    topic.learned(6, 9, ended=False)  # a failover has lost the rest
    version = topic.version
    topic.committing(under_way=True)
    commit(topic, lines(7, 7))
    topic.committing(under_way=False)
    topic.learned(7, topic.last_seq, ended=False)
    assert (topic.last_seq, topic.version, len(topic.recent)) == (7, version, 1)


async def test_what_a_line_too_large_to_keep_leaves_behind_is_not_taken_for_what_others_wrote_since():
    topic, text = FollowedSession(), b"x" * (RECENT_BYTES + 1)
    commit(topic, [Line(1, "a.b", text, lost := chain(GENESIS, text))])
    assert not topic.recent
    ours = lines(2, 2, stays := lines(1, 1)[0].hash)  # the first event was lost, and somebody else has written another
    commit(topic, ours)
    assert topic.handed_over(ReadPosition(2, lost)) is None
    assert topic.handed_over(ReadPosition(2, stays))


async def test_an_announcement_waits_for_a_commit_only_a_moment_since_its_answer_may_be_lost():
    topic = FollowedSession()
    reader = Reader(topic, 1)
    await asyncio.sleep(0)
    topic.committing(under_way=True)
    topic.announced(3)
    await asyncio.sleep(HELD_BACK_S / 5)
    assert not reader.task.done()
    await asyncio.wait_for(reader.task, 5)
    assert topic.last_seq == 3
    await reader.end()


async def test_a_reader_that_fails_harms_neither_the_commit_nor_the_others():
    def failing(_: Chunk) -> bool:
        raise RuntimeError("a fault of ours")

    topic, new = FollowedSession(), lines(1, 2)
    failed = asyncio.create_task(topic.changed(ReadPosition(1, GENESIS, failing), 60))
    other = Reader(topic, 1, GENESIS)
    await asyncio.sleep(0)
    commit(topic, new[:1])
    await failed  # it is woken, and asks
    commit(topic, new[1:])
    assert other.texts == [line.text for line in new]
    await other.end()


def test_a_read_that_ends_where_an_announcement_came_meanwhile_still_shows_that_the_session_is_over() -> None:
    followed = FollowedSession()
    followed.heard(2)
    followed.learned(2, 0, ended=True)
    assert followed.ended
