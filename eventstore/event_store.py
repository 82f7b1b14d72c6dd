"""The event store of one process, put together: what the read side, HTTP and the command line work with."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator

from eventstore.commit.batch import Answer, Retry
from eventstore.commit.deadline_sweeper import Sweeper
from eventstore.commit.idempotency_keys import Anchors
from eventstore.commit.records import Head, Page
from eventstore.commit.writer import Writer
from eventstore.domain.call import Call
from eventstore.domain.commands import Actor, Command
from eventstore.domain.draft import Policy
from eventstore.feed.cursor_seal import SECRET_BYTES
from eventstore.feed.divergence import Watch
from eventstore.log.followed_session import Chunk, Deliver
from eventstore.log.notifications import Hub
from eventstore.log.range_reader import Stretches
from eventstore.log.reader import Log
from eventstore.log.subscriber import Subscriber
from eventstore.log.tail import Tails
from eventstore.redis_client.client import Connection
from eventstore.redis_client.clock import Clocks, EngineClock
from eventstore.redis_client.durability import confirmation
from eventstore.redis_client.pipeline import Dispatcher
from eventstore.redis_client.preflight import check_engine
from eventstore.redis_keys import STORE, Keys, SessionKeys
from eventstore.settings import Settings
from eventstore.support.tasks import end

log = logging.getLogger("layby.store")


class EventStore:
    """Sessions: execute commands, read, follow. Made by `open_store`; `close` it."""

    def __init__(
        self, connection: Connection, keys: Keys, commits: Dispatcher, settings: Settings, cursor_secret: bytes
    ) -> None:
        policy = Policy(settings.default_expiry_ms, settings.max_expiry_ms)
        self.connection: Connection = connection
        self.keys: Keys = keys
        self.cursor_secret: bytes = cursor_secret
        self.clocks: Clocks = Clocks(keys.partitions, shared=not connection.clustered)
        self.clock: EngineClock = self.clocks.store
        self.hub: Hub = Hub(keys)
        self.reads: Dispatcher = Dispatcher(connection)
        self.writer: Writer = Writer(
            self.reads,
            commits,
            keys,
            self.clocks,
            policy,
            feed_keep=settings.feed_keep,
            max_pending=settings.max_pending,
        )
        self.anchors: Anchors = Anchors(self.reads, keys)
        stretches = Stretches(connection)
        self.log: Log = Log(self.reads, stretches, self.clocks, self.writer)
        self._tails: Tails = Tails(self.log, self.hub, stretches)
        constants: dict[str, str | int] = {"partitions": keys.partitions, "cursor_secret": cursor_secret.hex()}
        self.watch: Watch = Watch(connection, keys, constants)
        self._sweeper: Sweeper = Sweeper(connection, keys, self.clocks, self.writer)
        self._tasks: list[asyncio.Task[None]] = []
        self.writer.on_way.append(self.hub.committing)
        self.writer.on_commit.append(self.hub.committed)
        self.writer.on_entry.append(self.watch.wrote)
        self.writer.on_loss.append(self.hub.lost)
        self.hub.on_loss.append(self.watch.suspect)
        self.watch.on_noticed.append(lambda _: self.hub.doubt())
        self.hub.on_resync.append(self.watch.suspect)
        self.hub.on_due.append(self._sweeper.note)
        self.hub.on_resync.append(self._sweeper.rescan)

    def start(self) -> None:
        """Begin to listen to other processes and to sweep deadlines."""
        subscriber = Subscriber(self.connection, self.keys, self.hub)
        work = (subscriber.run(), self._sweeper.run(), self.watch.run())
        self._tasks = [asyncio.create_task(each) for each in work]

    async def close(self) -> None:
        """Finish what was accepted, then let go of everything."""
        await end(*self._tasks)
        await self.writer.close()
        await self.connection.close()

    async def execute(
        self, tenant: str, session_id: str, command: Command, by: Actor, retry: Retry | None = None
    ) -> Answer:
        """See `Writer.execute`."""
        return await self.writer.execute(tenant, session_id, command, by, retry)

    async def delete(self, tenant: str, session_id: str) -> None:
        """See `Writer.delete`."""
        await self.writer.delete(tenant, session_id)

    async def head(self, tenant: str, session_id: str) -> Head:
        """See `Log.head`."""
        return await self.log.head(self.session_keys(tenant, session_id))

    async def call(self, tenant: str, session_id: str, interrupt_id: str) -> Call:
        """See `Log.call`."""
        return await self.log.call(self.session_keys(tenant, session_id), interrupt_id)

    async def page(self, tenant: str, session_id: str, start: int, limit: int, *, descending: bool = False) -> Page:
        """See `Log.page`."""
        return await self.log.page(self.session_keys(tenant, session_id), start, limit, descending=descending)

    async def page_after(self, tenant: str, session_id: str, page: Page, limit: int) -> Page:
        """See `Log.page_after`."""
        return await self.log.page_after(self.session_keys(tenant, session_id), page, limit)

    def follow(self, tenant: str, session_id: str, start: int, deliver: Deliver | None = None) -> AsyncIterator[Chunk]:
        """See `Tails.follow`."""
        return self._tails.follow(self.session_keys(tenant, session_id), start, deliver)

    def session_keys(self, tenant: str, session_id: str) -> SessionKeys:
        return self.keys.session(tenant, session_id)


async def open_store(url: str, settings: Settings, *, start: bool = True) -> EventStore:
    """Connect, check the engine, and (unless `start` is false, for offline commands) begin the background work.

    Raises `UnfitEngine` and `StoreUnavailable`.
    """
    connection, commits = Connection(url), Connection(url)  # so that no commit waits for a read
    try:
        await check_engine(connection)
        keys = Keys(await _partitions(connection, settings.partitions))
        secret = await _cursor_secret(connection)
        dispatcher = Dispatcher(commits, await confirmation(connection, settings.durability))
    except BaseException:
        await connection.close()
        await commits.close()
        raise
    store = EventStore(connection, keys, dispatcher, settings, secret)
    if start:
        store.start()
    return store


async def _partitions(connection: Connection, wanted: int) -> int:
    """How many partitions the store has: written once, when it is first used, and never changed."""
    await connection.command("HSETNX", STORE, "partitions", wanted)
    return int(await connection.command("HGET", STORE, "partitions"))


async def _cursor_secret(connection: Connection) -> bytes:
    """What seals the cursors of the feed: made when the store is first used, the same for all servers."""
    await connection.command("HSETNX", STORE, "cursor_secret", secrets.token_hex(SECRET_BYTES))
    return bytes.fromhex((await connection.command("HGET", STORE, "cursor_secret")).decode())
