"""Turns entries of the feed, and logs, into items, and moves the follower's position with each."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eventstore.commit.records import LogPage, decode_page, read_call
from eventstore.domain.errors import CursorTooOld, Diverged
from eventstore.domain.events import line_type
from eventstore.feed.cursor import EntryId, Position
from eventstore.feed.divergence import Divergence, DivergenceLog, earlier
from eventstore.feed.entries import FeedEntry, FeedScan, decode_scan, scan_call, sessions_command
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.redis_keys import Keys, split_member

log = logging.getLogger("layby.feed")

READS_AT_ONCE = 16
READ_LINES = 1_000
READ_BYTES = 128 * 1024

Wanted = Callable[[str], bool]
"""Whether events of a type are to be told."""


@dataclass(frozen=True, slots=True)
class FeedItem:
    """One event (its stored line), or without a line the deletion of a session. `cursor` resumes right after it."""

    session_id: str
    cursor: str
    seq: int = 0
    line: bytes | None = None

    @property
    def deleted(self) -> bool:
        return self.line is None


Items = AsyncIterator[list[FeedItem]]
_Named = tuple[int, FeedEntry]
"""An entry with the number of its partition."""


@dataclass(slots=True)
class _Range:
    """A stretch of a log that entries name one after another: read once for all of them."""

    session_id: str
    first: int
    last: int
    page: LogPage | None = None

    def lines(self, entry: FeedEntry) -> list[bytes]:
        """What was read of this entry's events."""
        if self.page is None:
            return []
        at = entry.first - self.first
        return self.page.lines[at : at + entry.last - entry.first + 1]

    def goes_on(self, entry: FeedEntry) -> bool:
        """Whether the log holds all of the entry, however much of it was read."""
        return self.page is not None and self.page.last_seq >= entry.last


class FeedReader:
    """Reads for one follower. Never holds more than a few reads of bounded size."""

    def __init__(
        self, connection: RedisClient, keys: Keys, tenant: str, position: Position, wanted: Wanted | None
    ) -> None:
        self.position: Position = position
        self.keys: Keys = keys
        self._connection: RedisClient = connection
        self._records: DivergenceLog = DivergenceLog(connection)
        self._tenant: str = tenant
        self._wanted: Wanted | None = wanted

    async def tell(self, entries: Iterable[_Named]) -> Items:
        """The items of these entries, in their order. What an entry names is read from the log of its session."""
        left = deque(entries)
        while left:
            some = self._take_some(left)
            await self._fetch([found for _, found in some if found])
            items, done, rest = self._tell(some)
            left.extendleft(reversed([*rest, *(named for named, _ in some[done:])]))
            if items:
                yield items

    def _take_some(self, left: deque[_Named]) -> list[tuple[_Named, _Range | None]]:
        """As many entries as a few reads cover, each with its own; none where no event of the entry is wanted."""
        some, newest = list[tuple[_Named, _Range | None]](), dict[str, _Range]()
        reads = 0
        while left and reads < READS_AT_ONCE:
            named = left.popleft()
            entry, found = named[1], None
            if not entry.deletion and self._wants(entry):
                found = newest.get(entry.session_id)
                if found and found.last + 1 == entry.first:
                    found.last = entry.last
                else:
                    found = newest[entry.session_id] = _Range(entry.session_id, entry.first, entry.last)
                    reads += 1
            some.append((named, found))
        return some

    async def _fetch(self, found: list[_Range]) -> None:
        ranges = list({id(each): each for each in found}.values())
        calls = [self.read_call(each.session_id, each.first, each.last - each.first + 1) for each in ranges]
        for each, reply in zip(ranges, await self.run(calls), strict=True):
            each.page = decode_page(reply)

    def _tell(self, some: list[tuple[_Named, _Range | None]]) -> tuple[list[FeedItem], int, list[_Named]]:
        """The items of these entries up to the first that must be read further, how many that were, and its rest."""
        items = list[FeedItem]()
        for at, ((number, entry), found) in enumerate(some):
            lines = found.lines(entry) if found else []
            for seq, line in enumerate(lines, entry.first):
                self.position.move(number, entry.id, seq if seq < entry.last else None)
                items += self.item(entry.session_id, seq, line)
            following = entry.first + len(lines)
            if found and following <= entry.last:
                if found.goes_on(entry):
                    return items, at + 1, [(number, replace(entry, first=following))]
                _note_loss(found, following)
            self.position.move(number, entry.id)
            if entry.deletion:
                items.append(FeedItem(entry.session_id, self.position.text()))
        return items, len(some), []

    def item(self, session_id: str, seq: int, line: bytes) -> list[FeedItem]:
        """The item of an event at the position as it stands, if its type is wanted."""
        if self._wanted and not self._wanted(line_type(line)):
            return []
        return [FeedItem(session_id, self.position.text(), seq, line)]

    def _wants(self, entry: FeedEntry) -> bool:
        return self._wanted is None or any(map(self._wanted, entry.types.split(" ")))

    def read_call(self, session_id: str, start: int, limit: int) -> ScriptCall:
        """Read so many lines of a log, but no more than a read takes."""
        keys = self.keys.session(self._tenant, session_id)
        return read_call(keys, start, min(limit, READ_LINES), READ_BYTES)

    def scan_call(self, number: int, limit: int, *, again: bool = False) -> ScriptCall:
        """Look at so many entries of a partition, from the position on."""
        partition = self.keys.partition(number)
        return scan_call(partition, self.position.ids[number], self._tenant, limit, again=again)

    async def scan(self, numbers: Sequence[int], limit: int, *, again: bool = False) -> list[FeedScan]:
        """What comes next in these partitions. Raises `CursorTooOld` and `Diverged`."""
        scans = await self.look(numbers, limit, again=again)
        await self.refuse(dict(zip(numbers, scans, strict=True)))
        return scans

    async def look(self, numbers: Sequence[int], limit: int, *, again: bool = False) -> list[FeedScan]:
        """The same, whether it is possible to go on from there or not."""
        calls = [self.scan_call(number, limit, again=again) for number in numbers]
        return [decode_scan(reply) for reply in await self.run(calls)]

    async def refuse(self, scans: Mapping[int, FeedScan]) -> None:
        """Raises `Diverged`, `CursorTooOld` where it is not possible to go on from the position."""
        if others := {number: scan.last for number, scan in scans.items() if scan.other}:
            raise await self._diverged(others)
        if any(scan.old for scan in scans.values()):
            raise CursorTooOld("the feed no longer keeps what follows this cursor; start again without it")

    async def _diverged(self, points: Mapping[int, EntryId]) -> Diverged:
        """The store has lost what this position has seen in these partitions, all but what is up to these points. That
        is recorded, and the position is moved back: nothing but its text is of use any more. Of what is anybody's
        (which partitions, and the times of their newest entries) nothing is told."""
        known = await self._records.all()
        lost = {number: self.position.ids[number] for number in points}
        common = {n: earlier(point, lost[n], (k for k in known if k.partition == n)) for n, point in points.items()}
        await self._records.add(Divergence(number, 0, common[number], lost[number]) for number in points)
        self.position.move_back(common)
        return Diverged(
            "the store has lost a part of what this cursor has seen, in a failover or with an old backup: what was read"
            " after the last common point is not part of the record; go on from `cursor`, which resumes there",
            cursor=self.position.text(),
            sessions=_sessions(self._tenant, (loss for loss in known if loss.partition in common)),
        )

    async def sessions(self, number: int, start: str, *, inclusive: bool) -> list[str]:
        """Some of the tenant's sessions in a partition, in the order of their ids, from (or after) this one on."""
        partition = self.keys.partition(number)
        command = sessions_command(partition, self._tenant, start, READS_AT_ONCE, inclusive=inclusive)
        return [split_member(member.decode())[1] for member in await self._connection.command(*command)]

    async def run(self, calls: list[ScriptCall]) -> list[list[Any]]:
        """One round trip. Raises `StoreUnavailable`."""
        return await self._connection.run_each(calls)


def _note_loss(found: _Range, seq: int) -> None:
    """A session that was deleted has no log. Any other has lost what the feed names, and there is nothing to tell."""
    if found.page and not found.page.deleted:
        log.error("session %s: the log holds no event %d, which the feed names", found.session_id, seq)


def _sessions(tenant: str, losses: Iterable[Divergence]) -> list[dict[str, Any]]:
    """The tenant's sessions that are known to be hit."""
    return [
        {"session_id": one.session_id, "acknowledged_seq": one.acknowledged, "last_common_seq": one.common}
        for loss in losses
        for one in loss.sessions
        if one.tenant == tenant
    ]
