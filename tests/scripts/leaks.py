"""No key without a reason: every key on the server is one that `eventstore.redis_keys` knows, and belongs there now."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from eventstore.domain.values import json_text
from eventstore.redis_keys import STORE, Keys, SessionKeys, split_member

_PARTITION = re.compile(r"layby:\{p(\d\d+)\}:(deadlines|feed|sessions|proj:.+)")
_SESSION = re.compile(r"layby:\{p(\d\d+)\}:([^:]+):s:([^:]+):(head|events|calls|dedup|dedup_age|due:[^:]+)")


@dataclass
class Found:
    """What the server holds: the keys of partitions, and those of each session."""

    partitions: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    sessions: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], set[str]])


async def check(client, keys: Keys) -> None:
    """Judge every key of the server. `client` is a redis-py client."""
    found = _sort([key.decode() async for key in client.scan_iter()], keys)
    for number, kinds in found.partitions.items():
        await _check_partition(client, keys, number, kinds)
    for (tenant, session_id), parts in found.sessions.items():
        session = keys.session(tenant, session_id)
        if await client.hget(session.head, "rev") == b"deleted":
            assert parts == {"head"}, f"{session.base} is deleted, but left {parts - {'head'}}"
        else:
            await _check_session(client, session, parts)


def _sort(names: list[str], keys: Keys) -> Found:
    found = Found()
    for name in names:
        if of_partition := _PARTITION.fullmatch(name):
            found.partitions.setdefault(int(of_partition[1]), set()).add(of_partition[2])
        elif of_session := _SESSION.fullmatch(name):
            tenant, session_id = unquote(of_session[2]), unquote(of_session[3])
            session = keys.session(tenant, session_id)
            assert session.base.startswith(f"layby:{{p{of_session[1]}}}:"), f"{name} lies in a wrong partition"
            found.sessions.setdefault((tenant, session_id), set()).add(of_session[4])
        else:
            assert name == STORE, f"{name} is no key of ours"
    return found


async def _check_partition(client, keys: Keys, number: int, kinds: set[str]) -> None:
    partition = keys.partition(number)
    indexed = {member.decode() for member in await client.zrange(partition.sessions, 0, -1)}
    due = {member.decode(): score for member, score in await client.zrange(partition.deadlines, 0, -1, withscores=True)}
    for member in indexed | due.keys():
        session = keys.session(*split_member(member))
        assert session.partition.number == number
        assert await client.exists(session.head, session.events) == 2, f"{member} is in an index, but not there"
    for member, score in due.items():
        assert int(await client.hget(keys.session(*split_member(member)).head, "due")) == score
    if kinds & {"sessions", "deadlines"}:
        assert "feed" in kinds, f"{kinds} of partition {number} came from no commit"


async def _check_session(client, session: SessionKeys, parts: set[str]) -> None:
    if "head" not in parts:  # a place where an Idempotency-Key is held for another session
        assert parts == {"dedup", "dedup_age"}, f"{session.base} has only {parts}"
        await _check_retries(client, session)
        return
    assert {"head", "events"} <= parts, f"{session.base} has only {parts}"
    seq, state = await client.hmget(session.head, "seq", "state")
    newest = await client.xrevrange(session.events, count=1)
    assert newest[0][0] == seq + b"-0"
    assert await client.zscore(session.partition.sessions, session.member) == 0
    waiting = json_text.read(state).get("waiting", {})
    for part in parts:
        if part.startswith("due:"):
            assert unquote(part[4:]) in waiting, f"the marker {part} of {session.base} has no waiting call"
            assert await client.pttl(f"{session.base}:{part}") > 0, f"the marker {part} would stay for ever"
    if "dedup" in parts or "dedup_age" in parts:
        await _check_retries(client, session)


async def _check_retries(client, session: SessionKeys) -> None:
    fields = await client.hkeys(session.dedup)
    assert set(fields) == set(await client.zrange(session.dedup_age, 0, -1))
    assert await client.pttl(session.dedup) > 0
    assert await client.pttl(session.dedup_age) > 0
