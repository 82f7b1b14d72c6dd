"""Lets deadlines take effect that nobody looks at.

The stored deadline is the truth, and the commit that records an expiry is the same on every road. This one sleeps
until the nearest deadline it has heard of. It hears of each from the commit that set it; the index in the store is
read at the start, after every loss of the subscription, and now and then, in case something was missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from heapq import heappop, heappush

from eventstore.clock import EngineClock
from eventstore.connection import Connection
from eventstore.domain.commands import ExpireDue
from eventstore.domain.draft import SYSTEM
from eventstore.domain.errors import LaybyError, Missing, SessionDeleted
from eventstore.keys import Keys, split_member
from eventstore.writer import Writer

log = logging.getLogger("layby.sweeper")

SCAN_EVERY_S = 15.0
SCAN_AHEAD_MS = 60_000
"""A scan fetches what falls due until well after the next one. What is due later need not be remembered."""
LONGEST_SLEEP_S = 1.0
TRY_AGAIN_MS = 5_000
AT_ONCE = 64


class Sweeper:
    """Expires calls and leases at their time, one session's at once."""

    def __init__(self, connection: Connection, keys: Keys, clock: EngineClock, writer: Writer) -> None:
        self._connection: Connection = connection
        self._keys: Keys = keys
        self._clock: EngineClock = clock
        self._writer: Writer = writer
        self._heap: list[tuple[int, str]] = []
        self._due: dict[str, int] = {}
        self._wake: asyncio.Event = asyncio.Event()
        self._scan_at: float = 0.0
        self._slots: asyncio.Semaphore = asyncio.Semaphore(AT_ONCE)

    def note(self, member: str, due: int | None) -> None:
        """A session's next deadline, ms; None if it has none any more, 0 to look at once."""
        if due is None or (self._clock.known and due > self._clock.now() + SCAN_AHEAD_MS):
            self._due.pop(member, None)
        elif self._due.get(member) != due:
            self._due[member] = due
            heappush(self._heap, (due, member))
            if self._heap[0][1] == member:
                self._wake.set()

    def rescan(self) -> None:
        """Read the index again, soon."""
        self._scan_at = 0.0
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self._round()
            except LaybyError as error:  # the engine is away: what is due waits in its index
                log.info("sweep put off: %s", error.detail)
                self._scan_at = 0.0
                await asyncio.sleep(0.2)
            except Exception:  # whatever it is, deadlines must go on being swept
                log.exception("sweep failed; trying again")
                self._scan_at = 0.0
                await asyncio.sleep(LONGEST_SLEEP_S)

    async def _round(self) -> None:
        self._wake.clear()
        loop = asyncio.get_running_loop()
        if loop.time() >= self._scan_at:
            await self._scan()
            self._scan_at = loop.time() + SCAN_EVERY_S
        if due := self._take_due():
            await asyncio.gather(*map(self._expire, due))
        await self._sleep()

    async def _scan(self) -> None:
        """Read what is due soon from the index of every partition, and the engine's clock."""
        partitions = self._keys.all_partitions()
        seconds, micros = await self._connection.command("TIME")
        now = int(seconds) * 1000 + int(micros) // 1000
        self._clock.observe(now)
        ranges = [("ZRANGEBYSCORE", p.deadlines, "-inf", now + SCAN_AHEAD_MS, "WITHSCORES") for p in partitions]
        for reply in await self._connection.commands(ranges):
            for member, score in zip(reply[::2], reply[1::2], strict=True):
                self.note(member.decode(), int(float(score)))

    def _take_due(self) -> list[str]:
        due, now = list[str](), self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            deadline, member = heappop(self._heap)
            if self._due.get(member) == deadline:
                del self._due[member]
                due.append(member)
        return due

    async def _expire(self, member: str) -> None:
        tenant, session_id = split_member(member)
        async with self._slots:
            try:
                await self._writer.execute(tenant, session_id, ExpireDue(), SYSTEM)
                due = self._writer.next_due(tenant, session_id)
            except (Missing, SessionDeleted):
                return
            except LaybyError as error:  # this session's trouble must not hold up the others
                log.info("sweep of %s put off: %s", member, error.detail)
                due = self._clock.now() + TRY_AGAIN_MS
        if member not in self._due:  # else it was announced meanwhile
            self.note(member, due)

    async def _sleep(self) -> None:
        wait = LONGEST_SLEEP_S
        if self._heap:
            wait = min(wait, max(0.0, (self._heap[0][0] - self._clock.now()) / 1000))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):  # wait_for can swallow a cancellation before Python 3.12
                await self._wake.wait()
