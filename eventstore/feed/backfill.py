"""Tells a partition whose first entries are no longer kept: from the logs, one session after another by their ids.

What holds after every item: the sessions whose turn has passed were told exactly as of the feed entry that the
position names; the one whose turn it is, no further than that. So the feed can be followed meanwhile, and is never
trimmed away under a long history: entries of sessions whose turn has passed are told, the others are passed over,
since the logs are going to tell them.
"""

from __future__ import annotations

from dataclasses import dataclass

from eventstore.commit.records import LogPage, decode_page
from eventstore.feed.cursor import Backfill
from eventstore.feed.entries import FeedScan, decode_scan
from eventstore.feed.reader import READ_LINES, FeedItem, FeedReader, Items

ENTRIES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class _Log:
    """A stretch of a session's log, which begins at `start`."""

    session_id: str
    start: int
    page: LogPage


async def begin(reader: FeedReader, number: int) -> bool:
    """Begin the history of a partition: as of now, what is newer comes by its feed. False if there is no need to."""
    scan = (await reader.scan([number], 0))[0]
    if scan.begun:
        reader.position.move(number, scan.last)
        reader.position.history = Backfill(number)
    return scan.begun


async def tell(reader: FeedReader, history: Backfill) -> Items:
    """Read some logs, then what is new in the feed. When no session is left, the position has no history any more."""
    number, position = history.partition, reader.position
    names = await reader.sessions(number, history.session_id, inclusive=history.seq > 0)
    if not names:
        position.history = None
        return
    logs, scan = await _read(reader, history, names)
    # With more entries than were looked at, the first new event of a session may be out of sight: catch up first.
    if not scan.more and (items := _tell_logs(reader, number, logs, scan)):
        yield items
    now = position.history or history
    told = [(number, entry) for entry in scan.entries if entry.deletion or now.passed(entry.session_id)]
    async for items in reader.tell(told):
        yield items
    position.move(number, scan.last)


async def _read(reader: FeedReader, history: Backfill, names: list[str]) -> tuple[list[_Log], FeedScan]:
    """The logs first, the feed after them: so an event in a log is either as old as the position, or in sight here."""
    starts = [history.seq + 1 if name == history.session_id else 1 for name in names]
    reads = [reader.read_call(name, start, READ_LINES) for name, start in zip(names, starts, strict=True)]
    *pages, last = await reader.run([*reads, reader.scan_call(history.partition, ENTRIES_AT_ONCE)])
    logs = [_Log(name, start, decode_page(page)) for name, start, page in zip(names, starts, pages, strict=True)]
    scan = decode_scan(last)
    await reader.refuse({history.partition: scan})
    return logs, scan


def _tell_logs(reader: FeedReader, number: int, logs: list[_Log], scan: FeedScan) -> list[FeedItem]:
    """The items of these logs as of the position, up to and including the first that must be read further."""
    new: dict[str, int] = {}
    for entry in scan.entries:
        if not entry.deletion:
            new.setdefault(entry.session_id, entry.first)
    items = list[FeedItem]()
    for log in logs:
        lines = log.page.lines
        known = new.get(log.session_id, log.page.last_seq + 1) - 1
        end = min(known, log.start + len(lines) - 1)
        for seq in range(log.start, end + 1):
            reader.position.history = Backfill(number, log.session_id, seq)
            items += reader.item(log.session_id, seq, lines[seq - log.start])
        if lines and end < known:
            break
        reader.position.history = Backfill(number, log.session_id)
    return items
