"""Where a follower of the feed stands, and the opaque token that says so.

The feed is one stream a partition, each with a clock of its own, so a position is a vector: the last entry consumed
of every partition. Two things may be half done besides: one entry whose events were told in part, and one partition
whose beginning is no longer in its feed and is told session by session from their logs.

A token holds the vector: its length, version, number of partitions, a base time, a bitmap of the partitions that have
an entry, each such entry (its distance from the base, its number within the millisecond if there is one), and zeros;
then what is half done. Numbers are varints: seven bits a byte, the lowest first. It is sealed (`cursor_seal.py`) by
`text` and unsealed by `parse`, and nowhere else: inside the process a position is open. The vector moves with the
commits of all tenants, so it has the same length at all times; what is half done is the reader's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from eventstore.domain.values.field_types import SESSION_ID
from eventstore.feed.cursor_seal import GarbledCursor, Seal
from eventstore.feed.varints import EndsTooEarly, Varints, varint

EntryId = tuple[int, int]
"""The id of a stream entry: milliseconds of its partition's clock, and a number within them."""
NONE: EntryId = (0, 0)

_VERSION = 2
_LARGEST = (1 << 64) - 1
_INSIDE, _HISTORY = 1, 2
_BASE_BITS = 19
"""Nearly nine minutes: an entry of so long ago, or newer, takes three bytes."""


@dataclass(frozen=True, slots=True)
class PartialEntry:
    """Of the last entry of this partition only the events up to `seq` were told."""

    partition: int
    seq: int


@dataclass(frozen=True, slots=True)
class Backfill:
    """Sessions of this partition are being told from their logs, in the order of their ids, as of its last entry:
    all those before this one, and of this one the events up to `seq` (0: this one too)."""

    partition: int
    session_id: str = ""
    seq: int = 0

    def passed(self, session_id: str) -> bool:
        """Whether the session's turn has passed, so that its news now come from the feed."""
        return session_id < self.session_id or (session_id == self.session_id and not self.seq)


class Position:
    """The position of one follower. `text` is cheap: what has not changed since is not encoded again."""

    def __init__(
        self,
        seal: Seal,
        ids: Sequence[EntryId],
        inside: PartialEntry | None = None,
        history: Backfill | None = None,
    ) -> None:
        self.ids: list[EntryId] = list(ids)
        self.inside: PartialEntry | None = inside
        self.history: Backfill | None = history
        self._seal: Seal = seal
        self._base: int = _base(max((ms for ms, _ in self.ids), default=0))
        self._parts: list[bytes] = [_part(entry, self._base) for entry in self.ids]
        self._head: bytes = b""
        self._vector: bytes = b""

    @classmethod
    def start(cls, seal: Seal, partitions: int) -> Self:
        """Before everything."""
        return cls(seal, [NONE] * partitions)

    def move(self, partition: int, entry: EntryId, seq: int | None = None) -> None:
        """This entry was consumed, or only its events up to `seq`."""
        self.inside = None if seq is None else PartialEntry(partition, seq)
        if self.ids[partition] == entry:
            return
        base = max(self._base, _base(entry[0]))
        if base != self._base or NONE in (entry, self.ids[partition]):
            self._head = b""
        self.ids[partition], self._vector = entry, b""
        if base != self._base:
            self._base = base
            self._parts = [_part(known, base) for known in self.ids]
        else:
            self._parts[partition] = _part(entry, base)

    def move_back(self, entries: Mapping[int, EntryId]) -> None:
        """Nothing after these entries of these partitions counts as consumed; a history that was being told there
        begins anew."""
        inside, history = self.inside, self.history
        for partition, entry in entries.items():
            begins = history is not None and history.partition == partition
            self.move(partition, NONE if begins else entry)
        self.inside = None if inside and inside.partition in entries else inside
        self.history = None if history and history.partition in entries else history

    def text(self) -> str:
        """The token, sealed; each time it is another one."""
        return self._seal.close((self._vector or self._encode_vector()) + self._encode_rest())

    def _encode_vector(self) -> bytes:
        vector = (self._head or self._encode_head()) + b"".join(self._parts)
        self._vector = varint(len(vector)) + vector + bytes(_padding(len(vector), len(self.ids)))
        return self._vector

    def _encode_head(self) -> bytes:
        present = sum(1 << number for number, part in enumerate(self._parts) if part)
        bitmap = present.to_bytes(_bitmap_size(len(self.ids)), "little")
        self._head = bytes([_VERSION]) + varint(len(self.ids)) + varint(self._base) + bitmap
        return self._head

    def _encode_rest(self) -> bytes:
        inside, history = self.inside, self.history
        if inside is None and history is None:
            return b"\0"
        rest = bytes([(_INSIDE if inside else 0) | (_HISTORY if history else 0)])
        if inside:
            rest += varint(inside.partition) + varint(inside.seq)
        if history:
            name = history.session_id.encode()
            rest += varint(history.partition) + varint(history.seq) + varint(len(name)) + name
        return rest


def parse(text: str, seal: Seal, partitions: int) -> Position:
    """The position that a token tells. Raises `GarbledCursor`."""
    try:
        return _read(Varints(seal.open(text)), seal, partitions)
    except EndsTooEarly:
        raise GarbledCursor from None


def _read(reader: Varints, seal: Seal, partitions: int) -> Position:
    size = reader.number()
    ids = _read_vector(Varints(reader.take(size)), partitions)
    reader.take(_padding(size, partitions))
    flags = reader.byte()
    inside = PartialEntry(reader.number(), reader.number()) if flags & _INSIDE else None
    history = _read_history(reader) if flags & _HISTORY else None
    halves = [half.partition for half in (inside, history) if half]
    if flags > (_INSIDE | _HISTORY) or not reader.at_end or (inside and not inside.seq):
        raise GarbledCursor
    if any(number >= partitions or ids[number] == NONE for number in halves):
        raise GarbledCursor
    return Position(seal, ids, inside, history)


def _read_vector(reader: Varints, partitions: int) -> list[EntryId]:
    if reader.byte() != _VERSION or reader.number() != partitions:
        raise GarbledCursor
    base = reader.number()
    present = int.from_bytes(reader.take(_bitmap_size(partitions)), "little")
    ids = [_read_part(reader, base) if present >> number & 1 else NONE for number in range(partitions)]
    if present >> partitions or not reader.at_end:
        raise GarbledCursor
    return ids


def _read_part(reader: Varints, base: int) -> EntryId:
    packed = reader.number()
    distance = packed >> 2 if not packed & 2 else -(packed >> 2)
    entry = (base + distance, reader.number() if packed & 1 else 0)
    if entry == NONE or not 0 <= entry[0] <= _LARGEST:
        raise GarbledCursor
    return entry


def _read_history(reader: Varints) -> Backfill:
    partition, seq = reader.number(), reader.number()
    name = reader.take(reader.number()).decode(errors="replace")
    if not (SESSION_ID.fullmatch(name) or (not name and not seq)):
        raise GarbledCursor
    return Backfill(partition, name, seq)


def _base(newest: int) -> int:
    """A time that seldom changes, and is the same for the same position."""
    return newest >> _BASE_BITS << _BASE_BITS


def _part(entry: EntryId, base: int) -> bytes:
    """An entry's distance from the base, over two flags: earlier, and numbered within its millisecond."""
    if entry == NONE:
        return b""
    distance = entry[0] - base
    packed = abs(distance) << 2 | (2 if distance < 0 else 0) | (1 if entry[1] else 0)
    return varint(packed) + (varint(entry[1]) if entry[1] else b"")


def _padding(size: int, partitions: int) -> int:
    """How many zeros make a vector as long as every other of so many partitions. One that is longer yet has entries
    that take more than six bytes each: the newest of a partition is then 99 days older than that of another."""
    step = 24 + _bitmap_size(partitions) + 6 * partitions
    return -(len(varint(size)) + size) % step


def _bitmap_size(partitions: int) -> int:
    return (partitions + 7) // 8
