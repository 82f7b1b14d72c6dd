"""One async iterator for history and live: any offset, no gap, no duplicate.

A tail holds no connection while it waits, and one chunk while it reads; a slow reader is simply asked later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from eventstore.domain.errors import Diverged, StoreUnavailable
from eventstore.hub import Hub, Topic
from eventstore.keys import SessionKeys
from eventstore.log import Log
from eventstore.sending import pauses
from eventstore.store import Page

CHUNK_LINES = 1_000
POLL_S = 15.0
"""How long a reader that hears nothing waits before it looks for itself."""
PATIENCE_S = 5.0
"""How long a reader under way goes on looking while the store does not answer."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines, the first of them numbered `first`. `end` says why nothing follows, if that is so:
    `terminal` or `deleted`. `hash` is the chain hash up to here, "" where there is nothing before. Those who are handed
    the same chunk share in `encoded` what they make of it."""

    first: int
    lines: list[bytes]
    end: str | None = None
    hash: str = field(default="", compare=False)
    encoded: dict[Any, list[bytes]] | None = field(default=None, compare=False, repr=False)

    @property
    def next_from(self) -> int:
        return self.first + len(self.lines)


class Tails:
    """Follows sessions. Readers of the same session share what they fetch."""

    def __init__(self, log: Log, hub: Hub) -> None:
        self._log: Log = log
        self._hub: Hub = hub
        self._fetching: dict[tuple[str, int, int, int], asyncio.Task[Page]] = {}

    async def follow(self, keys: SessionKeys, start: int) -> AsyncIterator[Chunk]:
        """Chunks from `start` on (1 is the first event, 0 the end, -3 the third from the end), for ever, until the
        session has ended and all is read, or it is deleted. The first chunk comes at once and may be empty.

        Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`; and `Diverged`, when the store has lost what was
        read here, and may have given its numbers to other events.
        """
        with self._hub.watch(keys) as topic:
            seen, known = topic.version, topic.last_seq
            page = await self._first(keys, topic, start)
            topic.learned(page.last_seq, known, ended=page.ended)
            chunk = _chunk(page, page.first)
            while True:
                yield chunk
                if chunk.end:
                    return
                chunk, seen = await self._next(keys, topic, chunk, seen)

    async def _first(self, keys: SessionKeys, topic: Topic, start: int) -> Page:
        """Shared with others where it does no harm that the answer may be a little older than the question: news of
        what it lacks will come. It must not be told that way that nothing will come, or that something is overdue."""
        if start > 0:
            page = await self._fetch(keys, topic, start)
            if page.exists and not page.ended and not (page.due is not None and page.due <= page.now):
                return page
        return await self._log.page(keys, start, CHUNK_LINES)

    async def _next(self, keys: SessionKeys, topic: Topic, before: Chunk, seen: int) -> tuple[Chunk, int]:
        """The next chunk that holds something, and the state of the topic that was seen before it was read."""
        seq, hash_ = before.next_from, before.hash
        while True:
            if chunk := _handed_over(topic, seq, hash_):
                return chunk, seen
            if topic.last_seq < seq and topic.version == seen and not topic.ended:
                await topic.changed(POLL_S * random.uniform(0.8, 1.2))
                if chunk := _handed_over(topic, seq, hash_):
                    return chunk, seen
            seen, known = topic.version, topic.last_seq
            page = await self._look(keys, topic, seq)
            self._check(keys, page, hash_)
            topic.learned(page.last_seq, known, ended=page.ended)
            chunk = _chunk(page, seq)
            if chunk.lines or chunk.end:
                return chunk, seen
            hash_ = page.before

    def _check(self, keys: SessionKeys, page: Page, hash_: str) -> None:
        """Raises `Diverged` where the event before the page is another one than its reader has seen."""
        if not hash_ or page.deleted or page.before == hash_:
            return
        self._hub.lost(keys)
        raise Diverged(
            f"the session has lost events up to {page.first - 1}, which were read here, in a failover or with an old"
            " backup; read it again",
            last_seq=page.last_seq,
        )

    async def _look(self, keys: SessionKeys, topic: Topic, seq: int) -> Page:
        """`_fetch`, for a reader under way. After an outage the news that wakes it may come while others are still
        finding out that the store is back: so it is not cut at once."""
        give_up, waits = asyncio.get_running_loop().time() + PATIENCE_S, pauses()
        while True:
            try:
                return await self._fetch(keys, topic, seq)
            except StoreUnavailable:
                if asyncio.get_running_loop().time() > give_up:
                    raise
            await asyncio.sleep(next(waits))

    async def _fetch(self, keys: SessionKeys, topic: Topic, seq: int) -> Page:
        """Read from the store; whoever wants the same and has heard the same shares it: an answer may be older than
        what was heard since it was asked for."""
        name = (keys.member, seq, topic.version, topic.last_seq)
        task = self._fetching.get(name)
        if task is None:
            task = self._fetching[name] = asyncio.create_task(self._log.raw_page(keys, seq, CHUNK_LINES))
            task.add_done_callback(lambda _: self._fetching.pop(name, None))
        return await asyncio.shield(task)


def _chunk(page: Page, seq: int) -> Chunk:
    if page.deleted:
        return Chunk(seq, [], "deleted")
    caught_up = seq + len(page.lines) > page.last_seq
    return Chunk(seq, page.lines, "terminal" if page.ended and caught_up else None, page.hash or page.before)


def _handed_over(topic: Topic, seq: int, hash_: str) -> Chunk | None:
    """The newest lines, where they are at hand: the same chunk for all who want it."""
    if not topic.has(seq, hash_):
        return None
    if (chunk := topic.shared.get(seq)) is None:
        lines = topic.lines_from(seq, "")
        chunk = topic.shared[seq] = Chunk(seq, [line.text for line in lines], hash=lines[-1].hash, encoded={})
    return chunk
