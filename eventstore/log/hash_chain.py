"""Recomputes the hash chain of sessions from their streams alone, and holds the head against it.

Only reads, a page at a time, while servers may write: the head is read after the events, and names the event up to
which the log must be whole. What looks broken is looked at twice, since a session can be deleted meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from redis import exceptions as redis_errors

from eventstore.commit.records import DELETED
from eventstore.domain.events import GENESIS, chain
from eventstore.domain.values import json_text
from eventstore.redis_client.client import RedisClient
from eventstore.redis_keys import Keys, SessionKeys, member, split_member

PAGE_BYTES = 1024 * 1024
LONGEST_PAGE = 1_000
INDEX_PAGE = 500
AT_ONCE = 16


class Broken(Exception):
    """The first fault of a session: at which event, and what is wrong."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(why)
        self.seq: int = seq
        self.why: str = why


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a session: `state` is `intact`, `broken`, `deleted` or `absent`."""

    session_id: str
    state: str
    events: int = 0
    broken: Broken | None = None


@dataclass(slots=True)
class _Walk:
    """How far the log was followed, and the hash there."""

    seq: int = 0
    hash: str = GENESIS
    count: int = 100

    def take(self, entry_id: bytes, fields: dict[bytes, bytes]) -> None:
        """One more entry of the stream. Raises `Broken`."""
        seq = self.seq + 1
        if entry_id != b"%d-0" % seq:
            raise Broken(seq, f"the event is missing; the log goes on with entry {entry_id.decode()}")
        line, stored = fields.get(b"e"), fields.get(b"h")
        if line is None or stored is None:
            raise Broken(seq, "the entry is no event")
        self.hash = chain(self.hash, line)
        if stored != self.hash.encode():
            raise Broken(seq, "the event does not match its hash")
        if not line.startswith(b'{"seq":%d,' % seq):
            raise Broken(seq, "the event carries another sequence number")
        self.seq = seq

    def fit_page(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
        """Ask for as many next time as make a page of the right size."""
        size = sum(len(fields.get(b"e", b"")) for _, fields in entries) // len(entries)
        self.count = min(LONGEST_PAGE, max(1, PAGE_BYTES // max(1, size)))


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store says of a session beside its log."""

    indexed: bool
    revision: str
    seq: int = 0
    hash: str = field(default=GENESIS)


class Verifier:
    """Verifies the sessions of one store."""

    def __init__(self, connection: RedisClient, keys: Keys) -> None:
        self._connection: RedisClient = connection
        self._keys: Keys = keys

    async def count(self, tenant: str) -> int:
        """How many sessions the index has for a tenant."""
        first, end = _span(tenant)
        asked = [("ZLEXCOUNT", partition.sessions, first, end) for partition in self._keys.all_partitions()]
        return sum(await self._connection.commands(asked))

    async def all(self, tenant: str) -> AsyncGenerator[Verdict, None]:
        """The verdict on every session of a tenant that the index has."""
        for partition in self._keys.all_partitions():
            start, end = _span(tenant)
            while page := await self._connection.command(
                "ZRANGEBYLEX", partition.sessions, start, end, "LIMIT", 0, INDEX_PAGE
            ):
                names = [split_member(name.decode())[1] for name in page]
                for at in range(0, len(names), AT_ONCE):
                    for verdict in await asyncio.gather(*(self.one(tenant, n) for n in names[at : at + AT_ONCE])):
                        yield verdict
                start = b"(" + page[-1]

    async def one(self, tenant: str, session_id: str) -> Verdict:
        """The verdict on one session."""
        keys = self._keys.session(tenant, session_id)
        verdict = await self._look(keys)
        return verdict if verdict.broken is None else await self._look(keys)

    async def _look(self, keys: SessionKeys) -> Verdict:
        walk = _Walk()
        try:
            await self._follow(keys, walk, "+")
            known = await self._known(keys)
            state = await self._state(keys, walk, known)
        except Broken as broken:
            return Verdict(keys.session_id, "broken", walk.seq, broken)
        except redis_errors.ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            return Verdict(keys.session_id, "broken", walk.seq, Broken(walk.seq + 1, "a key is of the wrong kind"))
        return Verdict(keys.session_id, state, walk.seq)

    async def _state(self, keys: SessionKeys, walk: _Walk, known: _Known) -> str:
        """Raises `Broken` unless the log, the head and the index agree."""
        if known.revision == DELETED:
            return await self._deleted(keys, known)
        if not known.revision:
            if walk.seq or known.indexed:
                raise Broken(walk.seq, "the head is missing")
            return "absent"
        if not known.indexed:
            raise Broken(known.seq, "the session is missing in the index of sessions")
        if walk.seq > known.seq:
            raise Broken(known.seq + 1, f"the log goes on to {walk.seq}, after the newest event that the head knows")
        await self._follow(keys, walk, f"{known.seq}-0")
        if walk.seq < known.seq:
            raise Broken(walk.seq + 1, f"the event is missing; the head is at {known.seq}")
        if walk.hash != known.hash:
            raise Broken(known.seq, "the head holds another hash")
        return "intact"

    async def _deleted(self, keys: SessionKeys, known: _Known) -> str:
        if known.indexed:
            raise Broken(0, "the session is deleted, yet stands in the index of sessions")
        if await self._connection.command("EXISTS", keys.events):
            raise Broken(1, "the session is deleted, yet its log is there")
        return "deleted"

    async def _follow(self, keys: SessionKeys, walk: _Walk, end: str) -> None:
        """Take in what comes next in the log, up to this entry."""
        while True:
            start, asked = f"({walk.seq}-0" if walk.seq else "-", walk.count
            entries = await self._connection.command("XRANGE", keys.events, start, end, "COUNT", asked)
            for entry_id, fields in entries:
                walk.take(entry_id, fields)
            if len(entries) < asked:
                return
            walk.fit_page(entries)

    async def _known(self, keys: SessionKeys) -> _Known:
        """The index before the head: a deletion in between shows in the head."""
        index = ("ZSCORE", keys.partition.sessions, keys.member)
        score, head = await self._connection.commands([index, ("HMGET", keys.head, "rev", "seq", "state")])
        revision = (head[0] or b"").decode()
        if revision in ("", DELETED):
            return _Known(score is not None, revision)
        return _Known(score is not None, revision, *_newest(head[1], head[2]))


def _newest(seq: bytes, state: bytes) -> tuple[int, str]:
    try:
        record: Any = json_text.read(state)
        return int(seq), str(record["chain"])
    except (ValueError, TypeError, KeyError):
        raise Broken(0, "the head cannot be read") from None


def _span(tenant: str) -> tuple[str | bytes, str]:
    """The members of a tenant in an index, as a range of names: `0` follows `/`."""
    first = member(tenant, "")
    return f"[{first}", f"({first[:-1]}0"
