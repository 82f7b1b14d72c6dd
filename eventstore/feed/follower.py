"""One follower of a tenant's feed: where it stands, and what it must look at next.

Partitions with news are looked at in rounds, a stretch of some of them at a time, so memory is bounded however far
behind the follower is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from eventstore.commit.listener import CommitListener
from eventstore.feed import backfill
from eventstore.feed.cursor import EntryId, Position
from eventstore.feed.entries import FeedScan
from eventstore.feed.reader import FeedReader, Items
from eventstore.support.tasks import heed_cancellation

PARTITIONS_AT_ONCE = 16
ENTRIES_AT_ONCE = 64
CHECKED_AT_ONCE = 256


class PartitionChanges(CommitListener):
    """News for all followers of a process, put up once whatever their number. A follower that is busy reads it when it
    is done; one that waits is woken."""

    def __init__(self) -> None:
        self.count: int = 0
        self._changed: dict[int, int] = {}  # partition to the newest count, the newest last
        self.idle: set[asyncio.Event] = set()

    def partition_changed(self, partition: int) -> None:
        self.count += 1
        self._changed.pop(partition, None)
        self._changed[partition] = self.count
        while self.idle:
            self.idle.pop().set()

    def since(self, count: int) -> list[int]:
        """The partitions where something happened after this count."""
        return list(takewhile(lambda partition: self._changed[partition] > count, reversed(self._changed)))


class FeedFollower:
    """Asked for one round after another; `wait` in between."""

    def __init__(self, reader: FeedReader, board: PartitionChanges) -> None:
        self._reader: FeedReader = reader
        self._board: PartitionChanges = board
        self._read: int = board.count
        self._news: dict[int, None] = {}
        self._begun: dict[int, None] = {}  # partitions that wait until their history is told
        self._wake: asyncio.Event = asyncio.Event()

    @property
    def position(self) -> Position:
        return self._reader.position

    def news(self, partition: int) -> None:
        """Something happened there."""
        history = self.position.history
        if partition not in self._begun and not (history and history.partition == partition):
            self._news[partition] = None
            self._wake.set()

    async def wait(self) -> None:
        """Until there is something to look at."""
        heed_cancellation()
        self._read_board()
        while not (self._news or self._begun or self.position.history):
            self._wake.clear()
            self._board.idle.add(self._wake)
            try:
                await self._wake.wait()
            finally:
                self._board.idle.discard(self._wake)
            self._read_board()

    def _read_board(self) -> None:
        for partition in self._board.since(self._read):
            self.news(partition)
        self._read = self._board.count

    async def begin(self, ends: Sequence[EntryId]) -> None:
        """Find out where there is something to look at; `ends` are the newest entries of all partitions, read after
        the follower was made. Raises `CursorTooOld`, `Diverged`, `StoreUnavailable`."""
        numbers = [number for number, end in enumerate(ends) if self.position.ids[number] != end]
        scans = dict[int, FeedScan]()
        for start in range(0, len(numbers), CHECKED_AT_ONCE):
            some = numbers[start : start + CHECKED_AT_ONCE]
            scans.update(zip(some, await self._reader.look(some, 0), strict=True))
        await self._reader.refuse(scans)  # all of them at once, so that it is said once how to go on
        for number, scan in scans.items():
            if scan.begun:
                self._begun[number] = None
            elif scan.more:
                self.news(number)

    async def finish_entry(self) -> Items:
        """The rest of an entry of which a part was told before."""
        inside = self.position.inside
        if inside is None:
            return
        scan = (await self._reader.scan([inside.partition], 0, again=True))[0]
        rest = [(inside.partition, replace(entry, first=inside.seq + 1)) for entry in scan.entries]
        async for items in self._reader.tell(rest):
            yield items
        self.position.inside = None

    async def round(self) -> Items:
        """A stretch of some partitions with news, then a stretch of a history."""
        self._read_board()
        if some := list(self._news)[:PARTITIONS_AT_ONCE]:
            async for items in self._round(some):
                yield items
        if self.position.history is None and self._begun:
            await self._begin_history()
        if history := self.position.history:
            async for items in backfill.tell(self._reader, history):
                yield items
            self.news(history.partition)  # which counts once all of it is told

    async def _round(self, numbers: list[int]) -> Items:
        for number in numbers:
            self._news.pop(number, None)  # whatever comes from now on is news again
        scans = dict(zip(numbers, await self._reader.scan(numbers, ENTRIES_AT_ONCE), strict=True))
        async for items in self._reader.tell(
            (number, entry) for number, scan in scans.items() for entry in scan.entries
        ):
            yield items
        for number, scan in scans.items():
            if scan.begun:
                self._begun[number] = None
                continue
            self.position.move(number, scan.last)
            if scan.more:
                self.news(number)

    async def _begin_history(self) -> None:
        number = next(iter(self._begun))
        needed = await backfill.begin(self._reader, number)
        del self._begun[number]
        if not needed:
            self.news(number)
