"""Lets deadlines take effect that nobody looks at.

The stored deadline is the truth, and the commit that records an expiry is the same on every road. This one sleeps
until the nearest deadline it has heard of. It hears of each from the commit that set it; the index in the store is
read at the start, after every loss of the subscription, and now and then, in case something was missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from heapq import heappop, heappush
from typing import Any

from eventstore.commit.listener import CommitListener
from eventstore.commit.writer import Writer
from eventstore.domain.commands import ExpireDue
from eventstore.domain.draft import SYSTEM
from eventstore.domain.errors import LaybyError, Missing, SessionDeleted
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.clock import Clocks, monotonic_ms
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import Keys, PartitionKeys, split_member
from eventstore.support.tasks import supervise

log = logging.getLogger("layby.sweeper")

DUE = scripts.load("eventstore", "read_due_sessions", writes=False)

SCAN_EVERY_S = 15.0
SCAN_AHEAD_MS = 60_000
"""A scan fetches what falls due until well after the next one. What is due later need not be remembered."""
SCAN_MEMBERS = 1_000
"""A scan fetches so many of a partition at most; the next one comes when these are swept."""
LONGEST_SLEEP_S = 1.0
OUTAGE_PAUSE_S = 0.2
"""How long the sweeper waits before it tries an engine again that was away."""
TRY_AGAIN_MS = 5_000
EARLIER_MS = 1_000
"""What is noted again and comes earlier by more than this is moved: the clock of its engine was set forward."""
GATHER_S = 0.05
"""How long a sweep lets deadlines gather before the next, so that many in a row cost the engine a few pipelines and the
requests of others little time. The first after a rest is never kept waiting."""
SLICE = 256
AT_ONCE = 64


class DeadlineSweeper(CommitListener):
    """Expires calls and leases at their time, one session's at once."""

    def __init__(self, connection: RedisClient, keys: Keys, clocks: Clocks, writer: Writer) -> None:
        self._connection: RedisClient = connection
        self._keys: Keys = keys
        self._clocks: Clocks = clocks
        self._writer: Writer = writer
        # By our own clock, since each partition is judged by that of its engine: when, what is due then, whose.
        self._heap: list[tuple[float, int, str]] = []
        self._due: dict[str, tuple[int, float]] = {}  # of each, what counts of what is in the heap: what is due, when
        self._wake: asyncio.Event = asyncio.Event()
        self._scan_at: float = 0.0
        self._goes_on: bool = False  # whether the next scan continues the last one
        self._overdue: dict[int, set[str]] = {}  # by partition: what was overdue in the last scan
        self._stuck: Counter[int] = Counter()  # by partition: how much of that was still there in the next
        self._slots: asyncio.Semaphore = asyncio.Semaphore(AT_ONCE)

    def deadline_changed(self, member: str, due: int | None) -> None:
        if due is None:
            self._due.pop(member, None)
            return
        clock = self._clocks.of(self._keys.session(*split_member(member)).partition.number)
        at = clock.here(due)
        if clock.known and at > monotonic_ms() + SCAN_AHEAD_MS:
            self._due.pop(member, None)
        elif self._is_news(member, due, at):
            self._remember(member, due, at)

    def _is_news(self, member: str, due: int, at: float) -> bool:
        known = self._due.get(member)
        return known is None or due != known[0] or at < known[1] - EARLIER_MS

    def _remember(self, member: str, due: int, at: float) -> None:
        self._due[member] = (due, at)
        heappush(self._heap, (at, due, member))
        if self._heap[0][2] == member:
            self._wake.set()

    def announcements_missed(self) -> None:
        self.rescan()

    def rescan(self) -> None:
        """Read the index again, soon."""
        self._scan_at, self._goes_on = 0.0, False
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled. While the engine is away, what is due waits in its index."""
        await supervise(
            self._round,
            log,
            put_off="sweep put off: %s",
            failed="sweep failed; trying again",
            recover=self.rescan,
            pause_s=lambda: OUTAGE_PAUSE_S,
        )

    async def _round(self) -> None:
        self._wake.clear()
        if asyncio.get_running_loop().time() >= self._scan_at and not (self._goes_on and self._is_due()):
            await self._scan()
        if due := self._take_due():
            await asyncio.gather(*map(self._expire, due))
            if len(due) < SLICE:
                await asyncio.sleep(GATHER_S)
        elif not self._goes_on:
            await self._sleep()

    async def _scan(self) -> None:
        """Read what is due soon from the index of every partition, and the clocks.

        If there is more that is overdue than one scan reads, the next goes on at once, behind what was not to be swept.
        """
        if not self._goes_on:
            self._overdue.clear()
            self._stuck.clear()
        self._scan_at = math.inf
        partitions, covered, away = self._keys.all_partitions(), SCAN_EVERY_S * 1000, 0
        calls = [
            ScriptCall(DUE, [p.deadlines], [SCAN_AHEAD_MS, self._stuck[p.number], SCAN_MEMBERS]) for p in partitions
        ]
        for partition, reply in zip(partitions, await self._connection.outcomes(calls), strict=True):
            if isinstance(reply, LaybyError):  # its engine is away; that must not hold up the others
                away += 1
                if away == len(partitions):
                    raise reply
            elif isinstance(reply, Exception):
                raise reply
            else:
                covered = min(covered, self._take_in(partition, reply))
        if self._scan_at == math.inf:  # else another was asked for meanwhile
            self._goes_on = covered <= 0
            pause = LONGEST_SLEEP_S if away else max(0.0, covered) / 1000
            self._scan_at = asyncio.get_running_loop().time() + pause

    def _take_in(self, partition: PartitionKeys, reply: list[Any]) -> float:
        """Note what a partition told; gives for how long, ms, all that falls due there is known."""
        now, names, dues = int(reply[0]), reply[1::2], reply[2::2]
        self._clocks.of(partition.number).observe(now)
        found = [(name.decode(), int(float(due))) for name, due in zip(names, dues, strict=True)]
        before = self._overdue.get(partition.number, set())
        overdue = {member for member, due in found if due <= now}
        for member, due in found:
            if member not in before:
                self.deadline_changed(member, due)
        self._overdue[partition.number] = overdue
        self._stuck[partition.number] += len(overdue & before)
        if len(found) == SCAN_MEMBERS:  # what follows is due no earlier than the last of these
            return min(SCAN_EVERY_S * 1000, found[-1][1] - now)
        return SCAN_EVERY_S * 1000

    def _is_due(self) -> bool:
        return bool(self._heap) and self._heap[0][0] <= monotonic_ms()

    def _take_due(self) -> list[str]:
        """Some of what is due."""
        due, now = list[str](), monotonic_ms()
        while self._heap and self._heap[0][0] <= now and len(due) < SLICE:
            at, deadline, member = heappop(self._heap)
            if self._due.get(member) == (deadline, at):
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
                if member not in self._due:  # else it was announced meanwhile
                    self._remember(member, 0, monotonic_ms() + TRY_AGAIN_MS)
                return
        if member not in self._due:
            self.deadline_changed(member, due)

    async def _sleep(self) -> None:
        wait = LONGEST_SLEEP_S
        if self._heap:
            wait = min(wait, max(0.0, (self._heap[0][0] - monotonic_ms()) / 1000))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):  # wait_for can swallow a cancellation before Python 3.12
                await self._wake.wait()
