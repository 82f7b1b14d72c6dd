"""Turns entries of the feed, and logs, into items, and moves the follower's position with each."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eventstore.connection import Connection
from eventstore.domain.events import line_type
from eventstore.feed_cursor import Position
from eventstore.feed_store import Entry, Scan, decode_scan, scan_call, sessions_command
from eventstore.keys import Keys, split_member
from eventstore.scripts import ScriptCall
from eventstore.store import Page, decode_page, read_call

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
_Named = tuple[int, Entry]
"""An entry with the number of its partition."""


class Reader:
    """Reads for one follower. Never holds more than a few reads of bounded size."""

    def __init__(
        self, connection: Connection, keys: Keys, tenant: str, position: Position, wanted: Wanted | None
    ) -> None:
        self.position: Position = position
        self.keys: Keys = keys
        self._connection: Connection = connection
        self._tenant: str = tenant
        self._wanted: Wanted | None = wanted

    async def tell(self, entries: Iterable[_Named]) -> Items:
        """The items of these entries, in their order. What an entry names is read from the log of its session."""
        left = deque(entries)
        while left:
            some = [left.popleft() for _ in range(min(len(left), READS_AT_ONCE))]
            items, rest = self._take(some, await self._pages([entry for _, entry in some]))
            left.extendleft(reversed(rest))
            if items:
                yield items

    def _take(self, entries: list[_Named], pages: list[Page | None]) -> tuple[list[FeedItem], list[_Named]]:
        """The items of these entries up to the first that must be read further; and from that one on, what is left."""
        items = list[FeedItem]()
        for at, ((number, entry), page) in enumerate(zip(entries, pages, strict=True)):
            items += self._entry(number, entry, page)
            following = entry.first + (len(page.lines) if page else 0)
            if page and page.lines and following <= entry.last:
                rest = Entry(entry.id, entry.session_id, following, entry.last, entry.types)
                return items, [(number, rest), *entries[at + 1 :]]
            if page and not page.lines and not page.deleted:
                log.error("session %s: the log holds no event %d, which the feed names", entry.session_id, following)
            self.position.move(number, entry.id)
        return items, []

    def _entry(self, number: int, entry: Entry, page: Page | None) -> list[FeedItem]:
        if entry.deletion:
            self.position.move(number, entry.id)
            return [FeedItem(entry.session_id, self.position.text())]
        items = list[FeedItem]()
        for seq, line in enumerate(page.lines if page else (), entry.first):
            self.position.move(number, entry.id, seq if seq < entry.last else None)
            items += self.item(entry.session_id, seq, line)
        return items

    def item(self, session_id: str, seq: int, line: bytes) -> list[FeedItem]:
        """The item of an event at the position as it stands, if its type is wanted."""
        if self._wanted and not self._wanted(line_type(line)):
            return []
        return [FeedItem(session_id, self.position.text(), seq, line)]

    async def _pages(self, entries: list[Entry]) -> list[Page | None]:
        """The stored lines of these entries; None where no event of an entry is wanted."""
        wanted = [not entry.deletion and self._wants(entry) for entry in entries]
        calls = [
            self.read_call(entry.session_id, entry.first, min(READ_LINES, entry.last - entry.first + 1))
            for entry, want in zip(entries, wanted, strict=True)
            if want
        ]
        replies = iter(await self.run(calls))
        return [decode_page(next(replies)) if want else None for want in wanted]

    def _wants(self, entry: Entry) -> bool:
        return self._wanted is None or any(map(self._wanted, entry.types.split(" ")))

    def read_call(self, session_id: str, start: int, limit: int = READ_LINES) -> ScriptCall:
        return read_call(self.keys.session(self._tenant, session_id), start, limit, READ_BYTES)

    def scan_call(self, number: int, limit: int, *, again: bool = False) -> ScriptCall:
        """Look at so many entries of a partition, from the position on."""
        partition = self.keys.partition(number)
        return scan_call(partition, self.position.ids[number], self._tenant, limit, again=again)

    async def scan(self, numbers: Sequence[int], limit: int, *, again: bool = False) -> list[Scan]:
        """Raises `CursorTooOld` and `Diverged`."""
        replies = await self.run([self.scan_call(number, limit, again=again) for number in numbers])
        return [decode_scan(reply) for reply in replies]

    async def sessions(self, number: int, start: str, *, inclusive: bool) -> list[str]:
        """Some of the tenant's sessions in a partition, in the order of their ids, from (or after) this one on."""
        partition = self.keys.partition(number)
        command = sessions_command(partition, self._tenant, start, READS_AT_ONCE, inclusive=inclusive)
        return [split_member(member.decode())[1] for member in await self._connection.command(*command)]

    async def run(self, calls: list[ScriptCall]) -> list[list[Any]]:
        """One round trip. Raises `StoreUnavailable`."""
        replies = await self._connection.run_all(calls)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies
