"""Build the read models of a partition anew from its streams, in a generation of their own.

The old models are served, and kept up to date, until the new ones are whole; then one compare-and-set switches.
Killed half-way, a rebuild leaves keys that nobody reads, which the next one clears away.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from eventstore.domain.values.ids import random_id
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import Keys, PartitionKeys, split_member
from projections import redis_keys
from projections.fold.session_fold import Target
from projections.projector.generation import SESSIONS_AT_ONCE, Generation
from projections.projector.lock import locked
from projections.redis_keys import REBUILDING, Layout

log = logging.getLogger("layby.projections")

SWITCH = scripts.load("projections", "switch_generation")
PAGE = 1_000
_GENERATION = re.compile(r"layby:\{p(\d+)\}:proj:([^:]+):")


class Rebuild:
    """Rebuilds partitions. `progress` is told how many sessions were done since it was last called."""

    def __init__(self, connection: RedisClient, keys: Keys, progress: Callable[[int], object] = lambda _: None) -> None:
        self._connection: RedisClient = connection
        self._keys: Keys = keys
        self._progress: Callable[[int], object] = progress

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Keeps out others that rebuild the whole store. Raises `LockHeld`."""
        return locked(self._connection, REBUILDING, random_id(""))

    async def count(self) -> int:
        """How many sessions there are to go through."""
        cards = [("ZCARD", partition.sessions) for partition in self._keys.all_partitions()]
        return sum(await self._connection.commands(cards))

    async def all(self) -> int:
        """Every partition; then clear away what older rebuilds left. Gives the number of sessions."""
        done = 0
        for number in range(self._keys.partitions):
            done += await self.partition(number)
        await self.clear()
        return done

    async def partition(self, number: int) -> int:
        """One partition; whoever else builds it is waited for. Gives the number of its sessions.

        Raises `FeedTrimmed` when commits come so fast that the feed forgets them before they are read.
        """
        layout = Layout(self._keys.partition(number), random_id("")[:8])
        async with locked(self._connection, redis_keys.building(layout.partition), layout.generation, wait=True):
            return await self._build(layout)

    async def mend(self, number: int, damaged: str | None = None) -> None:
        """One partition, if its feed was trimmed behind the models that are served, or if those are the generation
        that was found damaged, and nobody has mended that."""
        layout = Layout(self._keys.partition(number), random_id("")[:8])
        async with locked(self._connection, redis_keys.building(layout.partition), layout.generation, wait=True):
            served = Generation(self._connection, self._keys, await self._served(layout.partition), served=True)
            if damaged == served.layout.generation or (await served.unread()).trimmed:
                await self._build(layout)

    async def _build(self, layout: Layout) -> int:
        if not await self._connection.command("EXISTS", layout.partition.feed):
            return 0  # nothing ever happened here
        old, done = await self._served(layout.partition), 0
        models = Generation(self._connection, self._keys, layout, served=False)
        # Where the feed ends now, before the first session is read: what comes later is taken in from the feed.
        await self._connection.command("SET", layout.checkpoint, await self._feed_end(layout.partition))
        async for targets in self._targets(layout):
            await models.bring_up(targets)
            await models.catch_up()  # so that the feed is never far ahead, however long this takes
            done += len(targets)
            self._progress(len(targets))
        await models.catch_up()
        pointer, names = redis_keys.current(layout.partition), [old.generation, layout.generation]
        reply = await self._connection.run(ScriptCall(SWITCH, [pointer, layout.checkpoint], names))
        log.info("partition %s: generation %s %s", layout.partition.number, layout.generation, reply[0].decode())
        return done

    async def _served(self, partition: PartitionKeys) -> Layout:
        pointer = await self._connection.command("GET", redis_keys.current(partition))
        return Layout(partition, redis_keys.generation(pointer))

    async def _feed_end(self, partition: PartitionKeys) -> str:
        newest = await self._connection.command("XREVRANGE", partition.feed, "+", "-", "COUNT", 1)
        return newest[0][0].decode() if newest else ""

    async def _targets(self, layout: Layout) -> AsyncIterator[list[Target]]:
        """Every session of the partition, some at a time."""
        after = "-"
        while True:
            index = layout.partition.sessions
            found = await self._connection.command("ZRANGEBYLEX", index, after, "+", "LIMIT", 0, PAGE)
            if not found:
                return
            after = b"(" + found[-1]
            targets = [Target(self._keys.session(*split_member(member.decode())), layout) for member in found]
            for start in range(0, len(targets), SESSIONS_AT_ONCE):
                yield targets[start : start + SESSIONS_AT_ONCE]

    async def clear(self) -> None:
        """Delete the keys of generations that are neither served nor being built."""
        batch = list[bytes]()
        async for key in self._connection.scan("layby:{p*}:proj:*:*", PAGE):
            batch.append(key)
            if len(batch) == PAGE:
                await self._clear(batch)
                batch = []
        await self._clear(batch)

    async def _clear(self, keys: list[bytes]) -> None:
        """A generation is named before it has keys: so one that nobody names, now that its keys were seen, is over."""
        found = [(key, match) for key in keys if (match := _GENERATION.match(key.decode()))]
        numbers = sorted({int(match[1]) for _, match in found})
        partitions = [self._keys.partition(number) for number in numbers]
        asked = [("MGET", redis_keys.current(partition), redis_keys.building(partition)) for partition in partitions]
        kept = set[tuple[int, str]]()
        for number, (served, built) in zip(numbers, await self._connection.commands(asked), strict=True):
            kept |= {(number, redis_keys.generation(served)), (number, (built or b"").decode())}
        over = [("UNLINK", key) for key, match in found if (int(match[1]), match[2]) not in kept]
        await self._connection.commands(over)
