"""What the tests of the scripts share: a server to run them on, and commits made from little."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from eventstore.commit.records import Commit, Head, Line, load_call, read_call
from eventstore.domain.call import Call
from eventstore.domain.events import chain
from eventstore.domain.session import Session, Waiting
from eventstore.redis_client.client import RedisClient
from eventstore.redis_keys import Keys, SessionKeys

KEYS = Keys(4)
S1 = KEYS.session("default", "s1")
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
FEED_KEEP = 1_000


@dataclass
class Server:
    """A server with the scripts, and what it holds."""

    connection: RedisClient
    real: bool
    keys: Keys = field(default_factory=lambda: KEYS)

    @property
    def client(self) -> Any:
        return self.connection.client

    async def now(self) -> int:
        seconds, micros = await self.connection.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def put(self, commit: Commit) -> list[Any]:
        return await self.connection.run(commit.script_call(FEED_KEEP))

    async def ok(self, commit: Commit) -> Head:
        """Put a commit that must go through; the head as it stands then."""
        reply = await self.put(commit)
        assert reply[0] == b"ok", reply
        return commit.head

    async def refused(self, commit: Commit) -> list[Any]:
        """Put a commit that must be refused, and must leave everything as it was."""
        before = await self.dump()
        reply = await self.put(commit)
        assert reply[0] != b"ok"
        assert await self.dump() == before, f"refused as {reply[0]}, yet something has changed"
        return reply

    async def load(self, *names: str, keys: SessionKeys = S1, retries: tuple[str, ...] = ()) -> list[Any]:
        return await self.connection.run(load_call(keys, names, retries))

    async def read(self, start: int, limit: int = 1000, room: int = 1 << 20, *, desc: bool = False) -> list[Any]:
        return await self.connection.run(read_call(S1, start, limit, room, descending=desc))

    async def dump(self) -> dict[bytes, Any]:
        """Everything on the server: each key with its value and when it expires."""
        return {key: (await self._value(key), await self._expiry(key)) async for key in self.client.scan_iter()}

    async def _expiry(self, key: bytes) -> int:
        return int(await self.client.pexpiretime(key))

    async def _value(self, key: bytes) -> Any:
        match (await self.client.type(key)).decode():
            case "hash":
                return await self.client.hgetall(key)
            case "zset":
                return await self.client.zrange(key, 0, -1, withscores=True)
            case "stream":
                return await self.client.xrange(key)
            case _:
                return await self.client.get(key)


async def first(server: Server, *lines: str, **more: Any) -> Commit:
    """The commit that begins session s1, at the server's time."""
    return following(Head(), *(lines or ("one",)), at=more.pop("at", None) or await server.now(), **more)


def following(
    base: Head,
    *lines: str | bytes,
    at: int | None = None,
    revision: str = "",
    keys: SessionKeys = S1,
    waiting: dict[str, int] | None = None,
    calls: dict[str, Call] | None = None,
    records: dict[str, str] | None = None,
    replaces: dict[str, str] | None = None,
    before: int | None = None,
    process: str = "p1",
) -> Commit:
    """The commit that comes after `base`, with these lines; `waiting` are the calls that wait then, by deadline.

    Without `at` it carries the time of `base`, which no clock has yet to reach: two commits may fit in a millisecond.
    """
    at = base.session.time if at is None else at
    session = replace(base.session.copy(), session_id=keys.session_id, time=at)
    if waiting is not None:
        session.waiting = {name: Waiting("approval", due) for name, due in waiting.items()}
    placed = _lines(session, lines)
    old, new = base.session.waiting, session.waiting
    return Commit(
        keys=keys,
        base=base,
        revision=revision or f"r{base.revision}{session.seq}",
        process=process,
        session=session,
        time=at,
        before=before,
        lines=placed,
        calls={**(calls or {})},
        marks={name: call.expires_at for name, call in new.items() if name not in old},
        unmarks=[name for name in old if name not in new],
        records=records or {},
        replaces=replaces or {},
    )


def _lines(session: Session, texts: tuple[str | bytes, ...]) -> list[Line]:
    placed = list[Line]()
    for text in texts:
        line = text.encode() if isinstance(text, str) else text
        session.seq, session.chain = session.seq + 1, chain(session.chain, line)
        placed.append(Line(session.seq, "note.taken", line, session.chain))
    return placed
