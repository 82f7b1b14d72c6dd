"""One async iterator for history and live: any offset, no gap, no duplicate.

A tail holds no connection while it waits, and while it reads one chunk, and the next one of a long history; a slow
reader is simply asked later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

from eventstore.commit.records import LogPage
from eventstore.domain.errors import Diverged, StoreUnavailable
from eventstore.log.followed_session import Chunk, Deliver, FollowedSession, ReadPosition
from eventstore.log.notifications import CommitNotifier
from eventstore.log.range_reader import FIRST_LINES, RangeReader, fitting
from eventstore.log.reader import LogReader
from eventstore.redis_client.retries import pauses
from eventstore.redis_keys import SessionKeys
from eventstore.support.tasks import SingleFlight

CHUNK_LINES = 1_000
POLL_S = 15.0
"""How long a reader that hears nothing waits before it looks for itself."""
PATIENCE_S = 5.0
"""How long a reader under way goes on looking while the store does not answer."""

Ahead = asyncio.Task[Chunk | None]
"""Reads a stretch, if there is one."""


class Tails:
    """Follows sessions. Readers of the same session share what they fetch."""

    def __init__(self, log: LogReader, notifier: CommitNotifier, stretches: RangeReader) -> None:
        self._log: LogReader = log
        self._notifier: CommitNotifier = notifier
        self._stretches: RangeReader = stretches
        self._fetching: SingleFlight[tuple[str, int, int, int], LogPage] = SingleFlight()
        self._ahead: SingleFlight[tuple[str, int, str], Chunk | None] = SingleFlight()

    async def follow(self, keys: SessionKeys, start: int, deliver: Deliver | None = None) -> AsyncIterator[Chunk]:
        """Chunks from `start` on (1 is the first event, 0 the end, -3 the third from the end), for ever, until the
        session has ended and all is read, or it is deleted. The first chunk comes at once and may be empty. What
        `deliver` takes, while the reader waits for the next one, is not given again.

        Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`; and `Diverged`, when the store has lost what was
        read here, and may have given its numbers to other events.
        """
        with self._notifier.follow(keys) as topic:
            seen, known = topic.version, topic.last_seq
            page = await self._first(keys, topic, start)
            topic.learned(page.last_seq, known, ended=page.ended)
            chunk, place = _chunk(page, page.first), ReadPosition(page.first, deliver=deliver)
            while True:
                place.move(chunk)
                ahead = self._read_ahead(keys, topic, place, chunk)
                yield chunk
                if chunk.end:
                    return
                if not (ahead and (following := await asyncio.shield(ahead)) and topic.version == seen):
                    following, seen = await self._next(keys, topic, place, seen)
                chunk = following

    async def _first(self, keys: SessionKeys, topic: FollowedSession, start: int) -> LogPage:
        """Shared with others where it does no harm that the answer may be a little older than the question: news of
        what it lacks will come. It must not be told that way that nothing will come, or that something is overdue."""
        if start > 0:
            page = await self._fetch(keys, topic, start, FIRST_LINES)
            if page.exists and not page.ended and not (page.due is not None and page.due <= page.now):
                return page
        return await self._log.page(keys, start, FIRST_LINES)

    def _read_ahead(self, keys: SessionKeys, topic: FollowedSession, place: ReadPosition, chunk: Chunk) -> Ahead | None:
        """Begin to read what follows on this chunk, while it is sent, where that is a stretch of a long history. Shared
        with whoever wants the same meanwhile."""
        count = fitting(chunk.lines, topic.last_seq - chunk.next_from + 1)
        if not count or chunk.end or topic.has(place.seq, place.hash):
            return None
        at = place.seq, place.hash
        return self._ahead.join((keys.member, *at), lambda: self._stretch(keys, *at, count))

    async def _stretch(self, keys: SessionKeys, seq: int, hash_: str, count: int) -> Chunk | None:
        stretch = await self._stretches.read(keys, seq, hash_, count)
        return Chunk(seq, stretch.lines, hash=stretch.hash, encoded={}) if stretch else None

    async def _next(
        self, keys: SessionKeys, topic: FollowedSession, place: ReadPosition, seen: int
    ) -> tuple[Chunk, int]:
        """The next chunk that holds something, and the state of the topic that was seen before it was read."""
        while True:
            if chunk := topic.handed_over(place):
                return chunk, seen
            if topic.last_seq < place.seq and topic.version == seen and not topic.ended:
                await topic.changed(place, POLL_S * random.uniform(0.8, 1.2))
                if chunk := topic.handed_over(place):
                    return chunk, seen
            seen, known = topic.version, topic.last_seq
            page = await self._look(keys, topic, place.seq)
            self._check(keys, page, place.hash)
            topic.learned(page.last_seq, known, ended=page.ended)
            chunk = _chunk(page, place.seq)
            if chunk.lines or chunk.end:
                return chunk, seen
            place.hash = page.before

    def _check(self, keys: SessionKeys, page: LogPage, hash_: str) -> None:
        """Raises `Diverged` where the event before the page is another one than its reader has seen."""
        if not hash_ or page.deleted or page.before == hash_:
            return
        self._notifier.loss_suspected(keys)
        raise Diverged(
            f"the session has lost events up to {page.first - 1}, which were read here, in a failover or with an old"
            " backup; read it again",
            last_seq=page.last_seq,
        )

    async def _look(self, keys: SessionKeys, topic: FollowedSession, seq: int) -> LogPage:
        """`_fetch`, for a reader under way. After an outage the news that wakes it may come while others are still
        finding out that the store is back: so it is not cut at once."""
        give_up, waits = asyncio.get_running_loop().time() + PATIENCE_S, pauses()
        while True:
            try:
                return await self._fetch(keys, topic, seq, CHUNK_LINES)
            except StoreUnavailable:
                if asyncio.get_running_loop().time() > give_up:
                    raise
            await asyncio.sleep(next(waits))

    async def _fetch(self, keys: SessionKeys, topic: FollowedSession, seq: int, most: int) -> LogPage:
        """Read from the store; whoever wants the same and has heard the same shares it: an answer may be older than
        what was heard since it was asked for."""
        name = (keys.member, seq, topic.version, topic.last_seq)
        return await asyncio.shield(self._fetching.join(name, lambda: self._log.raw_page(keys, seq, most)))


def _chunk(page: LogPage, seq: int) -> Chunk:
    if page.deleted:
        return Chunk(seq, [], "deleted")
    caught_up = seq + len(page.lines) > page.last_seq
    return Chunk(seq, page.lines, "terminal" if page.ended and caught_up else None, page.hash or page.before)
