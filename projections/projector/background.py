"""Keeps the read models of every partition up to date: in the background for most, on demand for all."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterable

from eventstore.commit.listener import CommitListener
from eventstore.domain.errors import LaybyError, StoreUnavailable
from eventstore.event_store import EventStore
from eventstore.redis_client.client import RedisClient
from eventstore.support.tasks import end, supervise
from projections.fold.session_fold import ModelsDamaged
from projections.projector.generation import FeedTrimmed, GenerationGone
from projections.projector.partition import Projector
from projections.projector.rebuild import Rebuild

log = logging.getLogger("layby.projections")

GATHER_S = 0.5
"""How long the background work lets commits gather, so that a busy session is folded once for many."""
AT_ONCE = 4
"""How many partitions it works at: most of the time is spent waiting for the engine."""
REST = 3.0
"""After each partition it rests this many times as long as that took: requests come first."""
LONGEST_REST_S = 1.0
"""But never longer: what comes meanwhile waits for it."""


class BackgroundProjectors(CommitListener):
    """The projectors of one store."""

    def __init__(self, client: RedisClient, store: EventStore) -> None:
        self._store: EventStore = store
        numbers = range(store.keys.partitions)
        self.projectors: list[Projector] = [Projector(client, store.keys, number) for number in numbers]
        self._rebuild: Rebuild = Rebuild(client, store.keys)
        self._behind: set[int] = set()
        self._wake: asyncio.Event = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def behind(self) -> int:
        """How many partitions wait for the background work."""
        return len(self._behind)

    def start(self) -> None:
        """Project in the background."""
        self._store.listen(self)
        self._spawn(supervise(self._round, log, failed="background projection failed; trying again"))

    async def close(self) -> None:
        """Stop that."""
        self._store.stop_listening(self)
        await end(*self._tasks)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def partition_changed(self, partition: int) -> None:
        if partition not in self._behind:
            self._behind.add(partition)
            self._wake.set()

    async def _round(self) -> None:
        await self._wake.wait()
        await asyncio.sleep(GATHER_S * random.uniform(0.5, 1.5))
        self._wake.clear()
        await asyncio.gather(*(self._work() for _ in range(AT_ONCE)))

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._behind:
            number = random.choice(tuple(self._behind))  # so that several servers rarely meet
            self._behind.discard(number)
            began = clock()
            await self._project(number)
            await asyncio.sleep(min((clock() - began) * REST, LONGEST_REST_S))

    async def _project(self, number: int) -> None:
        """A partition that cannot be projected now must not hold up the others; the next commit tries again."""
        try:
            await self.catch_up(number)
        except LaybyError as error:
            log.info("projection of partition %s put off: %s", number, error.detail)
        except Exception:
            log.exception("projection of partition %s failed", number)

    async def catch_up(self, number: int) -> str:
        """Take in everything that the feed of a partition holds now. Gives the generation that holds it."""
        projector = self.projectors[number]
        damaged: str | None = None
        try:
            return await projector.catch_up()
        except FeedTrimmed:
            log.warning("partition %s: the feed was trimmed behind its projector; rebuilding", number)
        except ModelsDamaged as error:
            damaged = projector.layout.generation
            log.error("partition %s: a stored model cannot be read; rebuilding", number, exc_info=error)
        try:
            await self._rebuild.mend(number, damaged)
            self._spawn(self._clear())
            return await projector.catch_up()
        except (FeedTrimmed, GenerationGone):
            raise StoreUnavailable("the read models are being rebuilt; try again in a moment") from None

    async def catch_up_all(self, numbers: Iterable[int]) -> dict[int, str]:
        """The same for some partitions."""
        wanted = list(numbers)
        return dict(zip(wanted, await asyncio.gather(*map(self.catch_up, wanted)), strict=True))

    async def _clear(self) -> None:
        try:
            await self._rebuild.clear()
        except Exception as error:  # the next rebuild clears
            log.info("an old generation was not cleared away: %s", error)
