"""What the tests of the read models share: what is stored of them, and what a fold of the streams alone gives."""

from __future__ import annotations

import json
import re
from typing import Any

from eventstore.domain.commands import Actor
from eventstore.event_store import EventStore
from eventstore.redis_keys import split_member
from projections import redis_keys
from projections.read_models import ReadModels
from projections.redis_keys import Layout
from tests.integration.stores import TENANT, client_of
from tests.unit.projections.memory import Memory

ANNA = Actor("anna")
_KEY = re.compile(r"layby:\{p(\d+)\}:proj:([^:]+):(.+)")


async def dump(store: EventStore) -> dict[str, Any]:
    """Everything stored in the generations that are served, whatever they are called; checkpoints apart."""
    found = dict[str, Any]()
    for key in await _keys(store):
        match = _KEY.fullmatch(key)
        if match and match[3] != "checkpoint" and match[2] == await served(store, int(match[1])):
            found[f"{match[1]} {match[3]}"] = await _value(store, key)
    return found


async def leftovers(store: EventStore) -> list[str]:
    """Keys of generations that are not served, and locks."""
    found = list[str]()
    for key in await _keys(store):
        match = _KEY.fullmatch(key)
        if (match and match[2] != await served(store, int(match[1]))) or key.endswith(":building"):
            found.append(key)
    return found


async def _keys(store: EventStore) -> list[str]:
    return [key.decode() async for key in client_of(store).client.scan_iter(match="layby:{p*}:proj:*", count=1000)]


async def served(store: EventStore, number: int) -> str:
    return redis_keys.generation(
        await client_of(store).command("GET", redis_keys.current(store.keys.partition(number)))
    )


async def _value(store: EventStore, key: str) -> Any:
    client = client_of(store).client
    match await client.type(key):
        case b"hash":
            return {name.decode(): value.decode() for name, value in (await client.hgetall(key)).items()}
        case b"list":
            return [value.decode() for value in await client.lrange(key, 0, -1)]
        case b"zset":
            return {name.decode(): int(score) for name, score in await client.zrange(key, 0, -1, withscores=True)}
        case b"none":  # projectors at work have emptied it since it was listed
            return None
        case kind:
            raise AssertionError(f"{key} is a {kind}")


async def folded(store: EventStore) -> dict[str, Any]:
    """What the dump must be: every stream folded from its first event, in memory."""
    found = dict[str, Any]()
    for partition in store.keys.all_partitions():
        memory = Memory(Layout(partition, "g"))
        for member in await client_of(store).command("ZRANGE", partition.sessions, 0, -1):
            tenant, session_id = split_member(member.decode())
            entries = await client_of(store).client.xrange(store.session_keys(tenant, session_id).events)
            memory.fold(session_id, [fields[b"e"] for _, fields in entries], tenant)
        for key, value in memory.keys.items():
            match = _KEY.fullmatch(key)
            assert match
            found[f"{match[1]} {match[3]}"] = value
    return found


async def project(models: ReadModels, store: EventStore) -> None:
    """Bring every partition up to date."""
    for number in range(store.keys.partitions):
        await models.catch_up(number)


async def check(models: ReadModels, store: EventStore) -> None:
    """The stored models are what the streams say, and nothing lies beside them."""
    await project(models, store)
    assert await dump(store) == await folded(store)
    assert await leftovers(store) == []


async def snapshot(models: ReadModels, session_id: str = "s1", tenant: str = TENANT) -> dict[str, Any]:
    _, body = await models.session(tenant, session_id)
    return json.loads(body)


async def inbox(models: ReadModels, **query: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"tool_name": None, "agent": None, "limit": 50, "cursor": None}
    return json.loads(await models.inbox(TENANT, **{**known, **query}))


async def sessions(models: ReadModels, **query: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"status": None, "parked": None, "agent": None, "limit": 50, "cursor": None}
    return json.loads(await models.sessions(TENANT, **{**known, **query}))


async def names(models: ReadModels, **query: Any) -> list[str]:
    """The calls of the inbox, a page after another."""
    return [f"{call['session_id']}/{call['interrupt_id']}" for call in await _all(inbox, models, "calls", query)]


async def session_ids(models: ReadModels, **query: Any) -> list[str]:
    return [row["session_id"] for row in await _all(sessions, models, "sessions", query)]


async def _all(read: Any, models: ReadModels, kind: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    found, cursor = list[dict[str, Any]](), None
    while True:
        page = await read(models, **query, cursor=cursor)
        found += page[kind]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
