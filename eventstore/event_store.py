"""The event store of one process: everything outside this package reads, writes and follows sessions through it.

It hides the parts that do the work, so that they can change: the writer, the log, the feed, the notifier of commits,
and the background loops (subscription, deadline sweeper, divergence monitor).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable

from eventstore.commit.batch import Answer, Retry
from eventstore.commit.deadline_sweeper import DeadlineSweeper
from eventstore.commit.idempotency_keys import HeldKey, IdempotencyKeys
from eventstore.commit.listener import CommitListener
from eventstore.commit.records import Head, LogPage
from eventstore.commit.writer import Writer
from eventstore.domain.call import Call
from eventstore.domain.commands import Actor, Command
from eventstore.domain.draft import Policy
from eventstore.feed.cursor_seal import SECRET_BYTES
from eventstore.feed.divergence import Divergence, DivergenceMonitor, decode_records, records_command
from eventstore.feed.tenant_feed import Feed, Items, Wanted
from eventstore.log.followed_session import Chunk, Deliver
from eventstore.log.notifications import CommitNotifier
from eventstore.log.range_reader import RangeReader
from eventstore.log.reader import LogReader
from eventstore.log.subscriber import Subscriber
from eventstore.log.tail import Tails
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.clock import Clocks, EngineClock
from eventstore.redis_client.durability import confirmation
from eventstore.redis_client.pipeline import ScriptPipeline
from eventstore.redis_client.preflight import check_engine
from eventstore.redis_keys import STORE, Keys, SessionKeys
from eventstore.settings import Settings
from eventstore.support.tasks import end


class EventStore:
    """Sessions: execute commands, read, follow. Made by `open_store`; `close` it."""

    def __init__(
        self, client: RedisClient, commits: ScriptPipeline, keys: Keys, settings: Settings, cursor_secret: bytes
    ) -> None:
        """`client` carries reads, `commits` carries commits and is closed with the store."""
        clocks = Clocks(keys.partitions, shared=not client.clustered)
        policy = Policy(settings.default_expiry_ms, settings.max_expiry_ms)
        constants: dict[str, str | int] = {"partitions": keys.partitions, "cursor_secret": cursor_secret.hex()}
        reads, stretches = ScriptPipeline(client), RangeReader(client)
        self.keys: Keys = keys
        self.clock: EngineClock = clocks.store
        self._client: RedisClient = client
        self._notifier: CommitNotifier = CommitNotifier(keys)
        self._writer: Writer = Writer(
            reads,
            commits,
            keys,
            clocks,
            policy,
            self._notifier,
            feed_keep=settings.feed_keep,
            max_pending=settings.max_pending,
        )
        self._idempotency_keys: IdempotencyKeys = IdempotencyKeys(reads, keys)
        self._log: LogReader = LogReader(reads, stretches, clocks, self._writer)
        self._tails: Tails = Tails(self._log, self._notifier, stretches)
        self._feed: Feed = Feed(client, keys, self._notifier, cursor_secret)
        self._monitor: DivergenceMonitor = DivergenceMonitor(client, keys, constants, self._notifier)
        self._sweeper: DeadlineSweeper = DeadlineSweeper(client, keys, clocks, self._writer)
        self._tasks: list[asyncio.Task[None]] = []
        self.listen(self._monitor)
        self.listen(self._sweeper)

    def start(self) -> None:
        """Begin the background work: listen to other processes, sweep deadlines, look for losses."""
        subscriber = Subscriber(self._client, self.keys, self._notifier)
        work = (subscriber.run(), self._sweeper.run(), self._monitor.run())
        self._tasks = [asyncio.create_task(each) for each in work]

    async def close(self) -> None:
        """End the background work, and finish every command that was accepted."""
        await end(*self._tasks)
        await self._writer.close()

    def session_keys(self, tenant: str, session_id: str) -> SessionKeys:
        """The Redis keys of a session."""
        return self.keys.session(tenant, session_id)

    # Write

    async def execute(
        self, tenant: str, session_id: str, command: Command, by: Actor, retry: Retry | None = None
    ) -> Answer:
        """Carry a command out, or answer a retry with the answer of its first attempt.

        Raises every `LaybyError` that the rules give, and `StoreUnavailable`, `StoreFull`, `Overloaded`.
        """
        return await self._writer.execute(tenant, session_id, command, by, retry)

    def submit(
        self, tenant: str, session_id: str, command: Command, by: Actor, retry: Retry | None = None
    ) -> asyncio.Future[Answer]:
        """The same without waiting; see `Writer.submit`. An answer without a durability must be confirmed."""
        return self._writer.submit(tenant, session_id, command, by, retry)

    def under_way(self, tenant: str, session_id: str, retry: Retry) -> asyncio.Future[Answer] | None:
        """The answer that a command under way with this key will have. Raises `IdempotencyKeyReused`."""
        return self._writer.under_way(tenant, session_id, retry)

    async def confirm(self, tenant: str, session_id: str) -> str:
        """The durability of what was committed earlier, perhaps by another process. Raises `StoreUnavailable`."""
        return await self._writer.confirm(tenant, session_id)

    def check_room(self) -> None:
        """Raises `Overloaded` if no further command may wait."""
        self._writer.check_room()

    async def delete(self, tenant: str, session_id: str) -> None:
        """Delete a session for ever. Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`, `StoreFull`."""
        await self._writer.delete(tenant, session_id)

    async def expire(self, tenant: str, session_id: str) -> None:
        """Let every deadline of a session that has passed take effect."""
        await self._log.expire(self.session_keys(tenant, session_id))

    async def hold_idempotency_key(
        self, tenant: str, places: Iterable[str], retry: Retry, session_id: str
    ) -> HeldKey | None:
        """Bind a key to the session that its request names; see `IdempotencyKeys.hold`."""
        return await self._idempotency_keys.hold(tenant, places, retry, session_id)

    async def release_idempotency_key(self, tenant: str, anchor: HeldKey, retry: Retry) -> None:
        """Undo that after a refusal: only success is kept. Raises `StoreUnavailable`, `StoreFull`."""
        await self._idempotency_keys.release(tenant, anchor, retry)

    # Read

    async def head(self, tenant: str, session_id: str) -> Head:
        """The write-side state. Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`."""
        return await self._log.head(self.session_keys(tenant, session_id))

    async def call(self, tenant: str, session_id: str, interrupt_id: str) -> Call:
        """One call. Raises as `head` does, and `CallNotFound`, `InvalidSnapshot`."""
        return await self._log.call(self.session_keys(tenant, session_id), interrupt_id)

    async def page(self, tenant: str, session_id: str, start: int, limit: int, *, descending: bool = False) -> LogPage:
        """Lines of the log from `start` on; see `LogReader.page`. Raises as `head` does."""
        return await self._log.page(self.session_keys(tenant, session_id), start, limit, descending=descending)

    async def page_after(self, tenant: str, session_id: str, page: LogPage, limit: int) -> LogPage:
        """The lines that follow on an ascending page; see `LogReader.page_after`. Raises as `head` does."""
        return await self._log.page_after(self.session_keys(tenant, session_id), page, limit)

    # Follow

    def follow(self, tenant: str, session_id: str, start: int, deliver: Deliver | None = None) -> AsyncIterator[Chunk]:
        """Chunks of one session from `start` on, history and then live; see `Tails.follow`."""
        return self._tails.follow(self.session_keys(tenant, session_id), start, deliver)

    def follow_tenant(self, tenant: str, cursor: str | None = None, wanted: Wanted | None = None) -> Items:
        """Items of all sessions of a tenant, history and then live; see `Feed.follow`."""
        return self._feed.follow(tenant, cursor, wanted)

    def listen(self, listener: CommitListener) -> None:
        """Notify this listener of commits from now on."""
        self._notifier.add(listener)

    def stop_listening(self, listener: CommitListener) -> None:
        """Stop notifying it, if it was added."""
        self._notifier.remove(listener)

    # State

    async def check_writable(self) -> list[Divergence]:
        """Write to the store, which alone shows that it takes writes, and read what it is recorded to have lost.

        Raises `StoreUnavailable`, `StoreFull`, `Overloaded`.
        """
        checked = ("HSET", STORE, "checked_at", self.clock.now() if self.clock.known else 0)
        _, recorded = await self._client.commands([checked, records_command()])
        return decode_records(recorded)

    @property
    def commands_waiting(self) -> int:
        """How many commands wait for their commit."""
        return self._writer.waiting

    @property
    def sessions_followed(self) -> int:
        """How many sessions have readers in this process."""
        return self._notifier.followed


async def open_store(client: RedisClient, settings: Settings, *, start: bool = True) -> EventStore:
    """Check the engine behind this client and, unless `start` is false, begin the background work.

    Close the store first, the client after it. Raises `UnfitEngine` and `StoreUnavailable`.
    """
    await check_engine(client)
    keys = Keys(await _partitions(client, settings.partitions))
    secret = await _cursor_secret(client)
    confirms = await confirmation(client, settings.durability)
    commits = ScriptPipeline(client.another(), confirms)  # its own connections, so that no commit waits for a read
    store = EventStore(client, commits, keys, settings, secret)
    if start:
        store.start()
    return store


async def _partitions(client: RedisClient, wanted: int) -> int:
    """How many partitions the store has: written once, when it is first used, and never changed."""
    await client.command("HSETNX", STORE, "partitions", wanted)
    return int(await client.command("HGET", STORE, "partitions"))


async def _cursor_secret(client: RedisClient) -> bytes:
    """What seals the cursors of the feed: made when the store is first used, the same for all servers."""
    await client.command("HSETNX", STORE, "cursor_secret", secrets.token_hex(SECRET_BYTES))
    return bytes.fromhex((await client.command("HGET", STORE, "cursor_secret")).decode())
