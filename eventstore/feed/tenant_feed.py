"""Follow all sessions of a tenant: from the beginning, from a cursor, or from now on.

Every commit adds one small entry to the feed of its partition; the events themselves are read from the logs. News of
commits only wake a follower; it reads on from its position, so that lost news cost latency and never an event.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Generator
from contextlib import contextmanager

from eventstore.domain.errors import Diverged, InvalidRequest
from eventstore.feed.cursor import NONE, EntryId, GarbledCursor, Position, parse
from eventstore.feed.cursor_seal import Seal
from eventstore.feed.entries import entry_id, newest_command
from eventstore.feed.follower import FeedFollower, PartitionChanges
from eventstore.feed.reader import FeedItem, FeedReader, Items, Wanted
from eventstore.log.notifications import CommitNotifier
from eventstore.redis_client.client import RedisClient
from eventstore.redis_keys import Keys
from eventstore.support.tasks import SingleFlight, supervise

__all__ = ["NOW", "Feed", "FeedItem", "Items", "Wanted"]

log = logging.getLogger("layby.feed")

NOW = "now"
POLL_S = 15.0
"""How often it is checked that no follower has missed news."""


class Feed:
    """The feed of one store. Followers hold no connection while they wait."""

    def __init__(self, connection: RedisClient, keys: Keys, notifier: CommitNotifier, secret: bytes) -> None:
        """`secret` seals the cursors."""
        self._connection: RedisClient = connection
        self._keys: Keys = keys
        self._secret: bytes = secret
        self._notifier: CommitNotifier = notifier
        self._followers: set[FeedFollower] = set()
        self._board: PartitionChanges = PartitionChanges()
        self._poller: asyncio.Task[None] | None = None
        self._ends: SingleFlight[None, list[EntryId]] = SingleFlight()
        notifier.add(self._board)

    async def follow(self, tenant: str, cursor: str | None = None, wanted: Wanted | None = None) -> Items:
        """Items for ever, a few at a time, each session's in their order. The first list comes at once, empty, when
        it is certain that the stream can begin. `cursor` is that of the last item received, or `now`; without one it
        is the beginning. Of events only those of a `wanted` type are told, deletions always.

        Raises `InvalidRequest` for a garbled cursor, `CursorTooOld`, `Diverged`, and `StoreUnavailable`.
        """
        position = self._position(tenant, cursor)
        follower = FeedFollower(FeedReader(self._connection, self._keys, tenant, position, wanted), self._board)
        with self._listening(follower):  # listen first, then look: what is committed in between is news
            ends = await asyncio.shield(self._ends.join_next(None, self._newest))
            if cursor == NOW:
                for number, end in enumerate(ends):
                    position.move(number, end)
            await follower.begin(ends)
            yield []
            async for items in follower.finish_entry():
                yield items
            while True:
                async for items in follower.round():
                    yield items
                await follower.wait()

    def _position(self, tenant: str, cursor: str | None) -> Position:
        seal = Seal(self._secret, tenant)
        if cursor in (None, NOW):
            return Position.start(seal, self._keys.partitions)
        try:
            return parse(cursor, seal, self._keys.partitions)
        except GarbledCursor:
            message = "must be a cursor that this feed gave out, or now; leave it out to start at the beginning"
            raise InvalidRequest.parameter("cursor", message) from None

    async def _newest(self) -> list[EntryId]:
        commands = [newest_command(partition) for partition in self._keys.all_partitions()]
        return [entry_id(reply[0][0]) if reply else NONE for reply in await self._connection.commands(commands)]

    @contextmanager
    def _listening(self, follower: FeedFollower) -> Generator[None]:
        self._followers.add(follower)
        if self._poller is None:
            self._poller = asyncio.create_task(self._poll())
        try:
            yield
        except Diverged:
            self._notifier.loss_suspected()
            raise
        finally:
            self._followers.discard(follower)
            if not self._followers and self._poller:
                self._poller.cancel()
                self._poller = None

    async def _poll(self) -> None:
        """One look for all followers, now and then: announcements may get lost."""
        await supervise(self._look, log, failed="followers could not be checked for lost news; trying again")

    async def _look(self) -> None:
        await asyncio.sleep(POLL_S * random.uniform(0.8, 1.2))
        for number, newest in enumerate(await self._newest()):
            for follower in self._followers:
                if follower.position.ids[number] != newest:
                    follower.news(number)
