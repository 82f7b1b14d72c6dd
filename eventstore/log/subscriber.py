"""Hears what other processes announce: one connection to each engine, whatever the number of tails.

An announcement is made by the engine that serves the partition, and so are the expiries of its markers. When other
engines serve it than before, the subscriptions follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from redis import exceptions as redis_errors

from eventstore.domain.errors import StoreUnavailable
from eventstore.log.notifications import CommitNotifier
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.connections import TrackedConnection, WithoutTimers
from eventstore.redis_client.node import Node
from eventstore.redis_client.retries import pauses
from eventstore.redis_client.round_trip import Packed, pack
from eventstore.redis_client.url import UnfitEngine
from eventstore.redis_keys import Keys, parse_marker
from eventstore.support.tasks import end, heed_cancellation, supervise

log = logging.getLogger("layby.subscriber")

PING_EVERY_S = 5.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
_EXPIRED = "__keyevent@*__:expired"
_BEGUN = (b"ssubscribe", b"psubscribe")
_Share = tuple[frozenset[bytes], asyncio.Task[None]]
"""The channels that are listened to at an engine, and the task that does."""


class Subscriber:
    """Subscribes to the commits of every partition and to markers that the engines let expire."""

    def __init__(self, connection: RedisClient, keys: Keys, notifier: CommitNotifier) -> None:
        self._connection: RedisClient = connection
        self._notifier: CommitNotifier = notifier
        self._channels: dict[bytes, int] = {p.wake.encode(): p.number for p in keys.all_partitions()}
        self._shares: dict[Node, _Share] = {}
        self._changed: asyncio.Event = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled, over every loss of a connection, wherever the partitions are served."""
        topology = self._connection.topology
        topology.on_change.append(self._changed.set)
        try:
            await self._found()
            while True:
                self._changed.clear()
                await self._share_out()
                await self._changed.wait()
        finally:
            topology.on_change.remove(self._changed.set)
            await end(*(task for _, task in self._shares.values()))

    async def _found(self) -> None:
        while True:
            try:
                return await self._connection.sender.find()
            except (StoreUnavailable, UnfitEngine):
                await asyncio.sleep(LONGEST_PAUSE_S)

    async def _share_out(self) -> None:
        """Listen to each channel where it is announced; leave alone what has not changed."""
        wanted = {
            node: frozenset(share) for node, share in self._connection.shares(self._channels, bytes.decode).items()
        }
        over = {node: task for node, (share, task) in self._shares.items() if wanted.get(node) != share}
        await end(*over.values())  # until they have ended they are among those that our own end takes along
        for node in over:
            del self._shares[node]
        for node, share in wanted.items():
            if node not in self._shares:
                self._shares[node] = (share, asyncio.create_task(self._listen(node, share)))

    async def _listen(self, node: Node, share: frozenset[bytes]) -> None:
        """Listen to one engine until cancelled."""
        waits = pauses(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)

        async def listen() -> None:
            nonlocal waits
            async with aclosing(self._messages(node, share)) as messages:  # closes the connection, whatever ends it
                async for message in messages:
                    waits = pauses(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
                    self._on_message(message)

        def lost(error: Exception) -> None:
            log.info("subscription lost (%s: %s); trying again", node.name, type(error).__name__)
            self._connection.topology.doubt()

        await supervise(
            listen,
            log,
            failed="subscription failed; trying again",
            expected=(redis_errors.RedisError, OSError),
            on_expected=lost,
            pause_s=lambda: next(waits),
        )

    async def _messages(self, node: Node, share: frozenset[bytes]) -> AsyncGenerator[list[Any], None]:
        """What comes in. Raises once the connection is gone, or silent too long, or a channel is elsewhere."""
        pool: Any = node.client.connection_pool
        connection: TrackedConnection = await pool.get_connection()
        pulse = _Pulse(connection)
        beating = asyncio.create_task(pulse.watch())
        try:
            # one by one: on a cluster, those of one command must share a slot
            wishes: list[Packed] = [("PSUBSCRIBE", _EXPIRED), *(("SSUBSCRIBE", channel) for channel in share)]
            await connection.send_packed_command(b"".join(map(pack, wishes)), check_health=False)
            heed_cancellation()  # the read below waits without end
            missing = len(wishes)
            with WithoutTimers(connection):
                while True:
                    reply: list[Any] = await connection.read_response()
                    pulse.heard = True
                    if reply[0] == b"sunsubscribe":
                        raise redis_errors.ConnectionError("a channel is announced elsewhere")
                    if reply[0] not in _BEGUN:
                        yield reply
                    elif not (missing := missing - 1):
                        self._notifier.announcements_missed()  # before this, nothing came here
        finally:
            await end(beating)
            await connection.disconnect(nowait=True)  # whoever had it next would hear what is announced
            await pool.release(connection)

    def _on_message(self, message: list[Any]) -> None:
        """One of `smessage`, `pmessage`, `pong`."""
        if message[0] == b"smessage":
            self._announced(self._channels[message[1]], message[2])
        elif message[0] == b"pmessage" and (found := parse_marker(message[3].decode(errors="replace"))):
            self._notifier.deadline_changed(found, 0)

    def _announced(self, partition: int, data: bytes) -> None:
        try:
            member, seq, due, *_ = data.decode().split(" ")  # a later version may add fields at the end
            news = None if seq == "deleted" else int(seq), int(due) if due else None
        except ValueError:
            log.warning("not an announcement of ours: %.100r", data)
            return
        self._notifier.announced(partition, member, *news)


class _Pulse:
    """Tells whether a connection is alive on which little may come. One timer for all that comes, not for each."""

    def __init__(self, connection: TrackedConnection) -> None:
        self._connection: TrackedConnection = connection
        self.heard: bool = True

    async def watch(self) -> None:
        """Ask where nothing was heard for a while; where that is not answered either, close the connection, so that
        whoever listens to it finds out. Until cancelled, or it is closed."""
        try:
            while True:
                self.heard = False
                await asyncio.sleep(PING_EVERY_S)
                if self.heard:
                    continue
                # without redis-py's own check, which would read while `_messages` does
                await self._connection.send_packed_command(pack(("PING",)), check_health=False)
                await asyncio.sleep(PING_EVERY_S)
                if not self.heard:
                    return
        except (redis_errors.RedisError, OSError):
            pass
        finally:
            await self._connection.disconnect(nowait=True)
