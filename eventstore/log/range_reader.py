"""Long reads of a log: stretches of it as plain ranges of its stream, at a sixth of what pages of a script cost the
engine, which would make tables of every entry first.

A range tells nothing of the session, and ends by count alone. So it is asked for only where so many lines are known to
follow, and begins with the event before them, which must be the one that its reader has seen last. Where anything is
odd there is no stretch, and the reader asks the script, which tells all as of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from eventstore.domain.errors import LaybyError
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.node import Node
from eventstore.redis_keys import SessionKeys

FIRST_LINES = 128
"""What a reader begins with, by the script: they tell how long lines are, and whether there are more."""
RANGE_LINES = 256
"""Were each of them as long as an event may be, they would be what two pipelines of pages may bring."""
RANGE_BYTES = 128 * 1024
"""What is kept of a stretch; but always one line."""
LEAST_LINES = 16
"""Of fewer lines, or of lines so long that fewer fit, a page is as good."""
_ENTRY_ID = itemgetter(0)
_RANGE = b"XRANGE"
"""As bytes, by which redis-py knows no command: it leaves the reply as it came, and makes no dictionaries of it."""


@dataclass(frozen=True, slots=True)
class LineRange:
    """Consecutive lines, and the chain hash of the last one."""

    lines: list[bytes]
    hash: str


def fitting(before: Sequence[bytes], left: int) -> int:
    """How many to ask for of the lines that are left after these, which tell how long lines are there; 0 where a page
    is as good."""
    if left < LEAST_LINES or not before:
        return 0
    longest = max(1, *map(len, before))
    count = min(RANGE_LINES, left, RANGE_BYTES // longest)
    return count if count >= LEAST_LINES else 0


class RangeReader:
    """Reads stretches: one at a time of each engine, since lines may turn out longer than those before them."""

    def __init__(self, connection: RedisClient) -> None:
        self._connection: RedisClient = connection
        self._turns: WeakKeyDictionary[Node, asyncio.Lock] = WeakKeyDictionary()

    async def read(self, keys: SessionKeys, seq: int, hash_: str, count: int) -> LineRange | None:
        """So many lines, by bytes fewer, from this number on, which follow on the event with this hash. None where the
        store does not answer, or has anything else there."""
        node = self._connection.topology.node(keys.events)
        async with self._turns.setdefault(node, asyncio.Lock()):
            if node.down:  # all who wait find out together whether it is back, by their pages
                return None
            command = (_RANGE, keys.events, f"{seq - 1}-0", "+", "COUNT", count + 1)
            try:
                return decode_range(await self._connection.command(*command), seq, hash_, count)
            except LaybyError:
                return None


def decode_range(entries: Sequence[Any], seq: int, hash_: str, count: int) -> LineRange | None:
    """The reply to a range that begins with the event before the stretch; see `RangeReader.read`."""
    numbers = range(seq - 1, seq + count)
    if list(map(_ENTRY_ID, entries)) != list(map(b"%d-0".__mod__, numbers)) or _hash(entries[0]) != hash_.encode():
        return None
    lines = [fields[1] for _, fields in entries]
    del lines[0]
    kept = _fitted(lines)
    del lines[kept:]
    return LineRange(lines, _hash(entries[kept]).decode(errors="replace"))


def _hash(entry: Any) -> bytes:
    """The chain hash in it, if it has one."""
    return entry[1][3] if len(entry[1]) > 3 else b""


def _fitted(lines: list[bytes]) -> int:
    """How many of these are kept."""
    if sum(map(len, lines)) <= RANGE_BYTES:
        return len(lines)
    room = RANGE_BYTES - len(lines[0])
    for number, line in enumerate(lines[1:], 1):
        room -= len(line)
        if room < 0:
            return number
    return len(lines)
