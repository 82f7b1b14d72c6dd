"""Who must be woken by a commit. Waking only saves time: whoever is woken reads by offset, so a lost wake-up costs
latency, bounded by a slow poll, and never an event."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from eventstore.domain.events import chain
from eventstore.keys import Keys, SessionKeys
from eventstore.store import Head, Line

RECENT_LINES = 256
RECENT_BYTES = 256 * 1024


class Topic:
    """What this process knows of a session that somebody follows. `recent` holds the newest lines, each chained to the
    one before; `version` counts the times when all that is known here came into doubt."""

    def __init__(self) -> None:
        self.readers: int = 0
        self.last_seq: int = 0
        self.ended: bool = False
        self.version: int = 0
        self.recent: deque[Line] = deque()
        self.shared: dict[int, Any] = {}
        """What a reader has made of the newest lines from a number on, for the others. Newer lines end it."""
        self._before: str = ""  # the hash before the first of them, once it is known
        self._recent_bytes: int = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def heard(self, seq: int) -> None:
        """There are events up to this one."""
        if seq > self.last_seq:
            self.last_seq = seq
            self._wake()

    def doubt(self) -> None:
        """Let every reader look into the store, whatever is known here."""
        self.version += 1
        self._forget()
        self._wake()

    def _forget(self) -> None:
        self.recent.clear()
        self.shared.clear()
        self._before, self._recent_bytes = "", 0

    def learned(self, last_seq: int, known: int, *, ended: bool) -> None:
        """What a read of the store found; `known` is what was known when it began. The store may have less than was
        announced (writes can be lost in a failover): then wait for what it has."""
        if last_seq > self.last_seq or self.last_seq == known:
            if last_seq < self.last_seq:
                self.doubt()
            self.last_seq, self.ended = last_seq, ended

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def remember(self, lines: list[Line]) -> None:
        """Keep the lines of a commit for those who are about to read them."""
        if not lines:
            return
        if self.recent and lines[0].seq <= self.recent[-1].seq:
            self.doubt()  # the store went back, and gives numbers out again
        elif self.recent and not _follows(lines[0], self.recent[-1]):
            self._forget()
        self.shared.clear()
        for line in lines:
            self.recent.append(line)
            self._recent_bytes += len(line.text)
        while len(self.recent) > RECENT_LINES or self._recent_bytes > RECENT_BYTES:
            first = self.recent.popleft()
            self._before = first.hash
            self._recent_bytes -= len(first.text)

    def has(self, seq: int, hash_: str) -> bool:
        """Whether the lines from this number on are all here and follow on this hash ("" = whatever they follow)."""
        if not self.recent or not self.recent[0].seq <= seq <= self.recent[-1].seq:
            return False
        return not hash_ or self._hash_before(seq, hash_) == hash_

    def lines_from(self, seq: int, hash_: str) -> list[Line]:
        """The lines from this number on, or none; see `has`."""
        return list(self.recent)[seq - self.recent[0].seq :] if self.has(seq, hash_) else []

    def _hash_before(self, seq: int, guess: str) -> str:
        """That of the event before this line, as far as it can be told."""
        at = seq - self.recent[0].seq
        if at:
            return self.recent[at - 1].hash
        if not self._before and chain(guess, self.recent[0].text) == self.recent[0].hash:
            self._before = guess
        return self._before

    async def changed(self, timeout_s: float) -> None:
        """Wait until somebody wakes the readers, or for so long."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            # Not wait_for: on Python 3.11 it loses a cancellation that comes together with the news.
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(future)


def _follows(line: Line, before: Line) -> bool:
    return before.seq + 1 == line.seq and chain(before.hash, line.text) == line.hash


class Hub:
    """Hands news of commits, this process's and others', to readers, projectors and the sweeper."""

    def __init__(self, keys: Keys) -> None:
        self._keys: Keys = keys
        self._topics: dict[str, Topic] = {}
        self.on_partition: list[Callable[[int], None]] = []
        self.on_due: list[Callable[[str, int | None], None]] = []
        self.on_resync: list[Callable[[], None]] = []
        self.on_loss: list[Callable[[], None]] = []

    @contextmanager
    def watch(self, keys: SessionKeys) -> Generator[Topic]:
        """Follow a session. Watch first, read then: what is committed in between wakes the reader."""
        topic = self._topics.setdefault(keys.member, Topic())
        topic.readers += 1
        try:
            yield topic
        finally:
            topic.readers -= 1
            if not topic.readers:
                self._topics.pop(keys.member, None)

    @property
    def watched(self) -> int:
        """How many sessions are followed."""
        return len(self._topics)

    def committed(self, keys: SessionKeys, head: Head, lines: list[Line]) -> None:
        """A commit of this process: readers need not ask the store for it."""
        if topic := self._topics.get(keys.member):
            topic.remember(lines)
            topic.ended = topic.ended or head.session.ended
            if head.deleted:
                topic.doubt()
            else:
                topic.heard(head.session.seq)
        self._news(keys.partition.number)

    def announced(self, partition: int, member: str, seq: int | None, due: int | None) -> None:
        """A commit that some process announced; `seq` is None for a deletion."""
        if topic := self._topics.get(member):
            if seq is None:
                topic.doubt()
            else:
                topic.heard(seq)
        self._news(partition)
        # Of deadlines we hear here alone: the engine announces our own commits too, all in the order they were made.
        for listener in self.on_due:
            listener(member, due)

    def lost(self, keys: SessionKeys | None = None) -> None:
        """The store does not hold what it has acknowledged; of this session, if it is known of which."""
        if keys and (topic := self._topics.get(keys.member)):
            topic.doubt()
        for listener in self.on_loss:
            listener()

    def resync(self) -> None:
        """Announcements may have been missed: everyone looks for himself."""
        self.doubt()
        for listener in self.on_resync:
            listener()

    def doubt(self) -> None:
        """Let all readers and projectors look into the store, whatever is known here."""
        for topic in self._topics.values():
            topic.doubt()
        for listener in self.on_partition:
            for number in range(self._keys.partitions):
                listener(number)

    def _news(self, partition: int) -> None:
        for listener in self.on_partition:
            listener(partition)
