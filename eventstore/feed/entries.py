"""What the feed of a partition holds, as the script tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eventstore.feed.cursor import NONE, EntryId
from eventstore.redis_client import scripts
from eventstore.redis_client.scripts import Argument, ScriptCall
from eventstore.redis_keys import PartitionKeys, escape

FEED = scripts.load("eventstore", "read_feed", writes=False)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One commit of a session, or (without events) its deletion."""

    id: EntryId
    session_id: str
    first: int = 0
    last: int = 0
    types: str = ""

    @property
    def deletion(self) -> bool:
        return not self.first


@dataclass(frozen=True, slots=True)
class FeedScan:
    """The entries of one tenant in a stretch of a feed. `last` is the last entry looked at, anybody's. `begun` means:
    nothing of the feed was consumed yet, and its first entries are no longer kept; `last` is then the newest. `other`
    means: the feed has another past than its reader; `last` is then the newest entry that may be of both. `old` means:
    what follows is no longer kept."""

    last: EntryId = NONE
    more: bool = False
    entries: list[FeedEntry] = field(default_factory=list[FeedEntry])
    begun: bool = False
    other: bool = False
    old: bool = False


def scan_call(partition: PartitionKeys, after: EntryId, tenant: str, limit: int, *, again: bool = False) -> ScriptCall:
    """Look at so many entries after this one; with `again` the tenant's entry there is told too."""
    return ScriptCall(FEED, [partition.feed], [entry_text(after), tenant, limit, "1" if again else ""])


def decode_scan(reply: Sequence[Any]) -> FeedScan:
    """What the script has found."""
    match reply[0]:
        case b"ok":
            return FeedScan(entry_id(reply[1]), reply[2] == b"1", [_entry(*entry) for entry in reply[3:]])
        case b"begun":
            return FeedScan(entry_id(reply[1]), begun=True)
        case b"other":
            return FeedScan(entry_id(reply[1]), other=True)
        case _:
            return FeedScan(old=True)


def newest_command(partition: PartitionKeys) -> Sequence[Argument]:
    """Asks for the newest entry."""
    return ("XREVRANGE", partition.feed, "+", "-", "COUNT", 1)


def sessions_command(
    partition: PartitionKeys, tenant: str, start: str, limit: int, *, inclusive: bool
) -> Sequence[Argument]:
    """Asks for the tenant's sessions from this id on, in the order of their ids."""
    prefix = f"{escape(tenant)}/"
    beyond = escape(tenant) + chr(ord("/") + 1)
    low = ("[" if inclusive or not start else "(") + prefix + start
    return ("ZRANGEBYLEX", partition.sessions, low, f"({beyond}", "LIMIT", 0, limit)


def entry_id(text: bytes) -> EntryId:
    ms, _, number = text.partition(b"-")
    return int(ms), int(number)


def entry_text(entry: EntryId) -> str:
    return f"{entry[0]}-{entry[1]}"


def _entry(found: bytes, session: bytes, first: bytes = b"0", last: bytes = b"0", types: bytes = b"") -> FeedEntry:
    return FeedEntry(entry_id(found), session.decode(), int(first), int(last), types.decode())
