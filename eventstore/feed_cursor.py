"""Where a follower of the feed stands, and the opaque token that says so.

The feed is one stream a partition, each with a clock of its own, so a position is a vector: the last entry consumed
of every partition. Two things may be half done besides: one entry whose events were told in part, and one partition
whose beginning is no longer in its feed and is told session by session from their logs.

A token is base64url of: version, number of partitions, a base time, a bitmap of the partitions that have an entry,
each such entry (its distance from the base, its number within the millisecond if there is one), what is half done, and
a checksum. Numbers are varints: seven bits a byte, the lowest first.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from zlib import crc32

from eventstore.domain.fields import SESSION_ID
from eventstore.varints import EndsTooEarly, Varints, varint

EntryId = tuple[int, int]
"""The id of a stream entry: milliseconds of its partition's clock, and a number within them."""
NONE: EntryId = (0, 0)

_VERSION = 1
_LONGEST = 1 << 17
_LARGEST = (1 << 64) - 1
_TOKEN = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_INSIDE, _HISTORY = 1, 2
_BASE_BITS = 19
"""Nearly nine minutes: an entry of so long ago, or newer, takes three bytes."""


class GarbledCursor(ValueError):
    """The text is no cursor of this tenant in this store."""


@dataclass(frozen=True, slots=True)
class Inside:
    """Of the last entry of this partition only the events up to `seq` were told."""

    partition: int
    seq: int


@dataclass(frozen=True, slots=True)
class History:
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
        tenant: str,
        ids: Sequence[EntryId],
        inside: Inside | None = None,
        history: History | None = None,
    ) -> None:
        self.ids: list[EntryId] = list(ids)
        self.inside: Inside | None = inside
        self.history: History | None = history
        self._seed: int = _seed(tenant)
        self._base: int = _base(max((ms for ms, _ in self.ids), default=0))
        self._parts: list[bytes] = [_part(entry, self._base) for entry in self.ids]
        self._head: bytes = b""
        self._vector: bytes = b""

    @classmethod
    def start(cls, tenant: str, partitions: int) -> Self:
        """Before everything."""
        return cls(tenant, [NONE] * partitions)

    def move(self, partition: int, entry: EntryId, seq: int | None = None) -> None:
        """This entry was consumed, or only its events up to `seq`."""
        self.inside = None if seq is None else Inside(partition, seq)
        if self.ids[partition] == entry:
            return
        base = max(self._base, _base(entry[0]))
        if base != self._base or self.ids[partition] == NONE:
            self._head = b""
        self.ids[partition], self._vector = entry, b""
        if base != self._base:
            self._base = base
            self._parts = [_part(known, base) for known in self.ids]
        else:
            self._parts[partition] = _part(entry, base)

    def text(self) -> str:
        """The token."""
        raw = (self._vector or self._encode_vector()) + self._encode_rest()
        raw += crc32(raw, self._seed).to_bytes(4)
        return urlsafe_b64encode(raw).rstrip(b"=").decode()

    def _encode_vector(self) -> bytes:
        self._vector = (self._head or self._encode_head()) + b"".join(self._parts)
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


def _seed(tenant: str) -> int:
    """Makes the checksum of one tenant's tokens differ from every other's."""
    return crc32(tenant.encode(errors="surrogatepass"))


def parse(text: str, tenant: str, partitions: int) -> Position:
    """The position that a token tells. Raises `GarbledCursor`."""
    raw = _decode(text)
    body, checksum = raw[:-4], raw[-4:]
    if crc32(body, _seed(tenant)).to_bytes(4) != checksum:
        raise GarbledCursor
    try:
        return _read(Varints(body), tenant, partitions)
    except EndsTooEarly:
        raise GarbledCursor from None


def _read(reader: Varints, tenant: str, partitions: int) -> Position:
    if reader.byte() != _VERSION or reader.number() != partitions:
        raise GarbledCursor
    ids = _read_vector(reader, partitions)
    flags = reader.byte()
    inside = Inside(reader.number(), reader.number()) if flags & _INSIDE else None
    history = _read_history(reader) if flags & _HISTORY else None
    halves = [half.partition for half in (inside, history) if half]
    if flags > (_INSIDE | _HISTORY) or not reader.at_end or (inside and not inside.seq):
        raise GarbledCursor
    if any(number >= partitions or ids[number] == NONE for number in halves):
        raise GarbledCursor
    return Position(tenant, ids, inside, history)


def _decode(text: str) -> bytes:
    if len(text) > _LONGEST or not _TOKEN.fullmatch(text):
        raise GarbledCursor
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise GarbledCursor from None
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != text:  # bits that say nothing are to be zero
        raise GarbledCursor
    return raw


def _read_vector(reader: Varints, partitions: int) -> list[EntryId]:
    base = reader.number()
    present = int.from_bytes(reader.take(_bitmap_size(partitions)), "little")
    ids = [_read_part(reader, base) if present >> number & 1 else NONE for number in range(partitions)]
    if present >> partitions:
        raise GarbledCursor
    return ids


def _read_part(reader: Varints, base: int) -> EntryId:
    packed = reader.number()
    distance = packed >> 2 if not packed & 2 else -(packed >> 2)
    entry = (base + distance, reader.number() if packed & 1 else 0)
    if entry == NONE or not 0 <= entry[0] <= _LARGEST:
        raise GarbledCursor
    return entry


def _read_history(reader: Varints) -> History:
    partition, seq = reader.number(), reader.number()
    name = reader.take(reader.number()).decode(errors="replace")
    if not (SESSION_ID.fullmatch(name) or (not name and not seq)):
        raise GarbledCursor
    return History(partition, name, seq)


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


def _bitmap_size(partitions: int) -> int:
    return (partitions + 7) // 8
