"""What the tests of the event store share: sessions made in a few words, and waiting for what must come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from eventstore.commit.batch import Answer, Retry
from eventstore.domain.commands import Command, CreateSession, NewEvent
from eventstore.event_store import EventStore, open_store
from eventstore.redis_client.client import RedisClient
from eventstore.settings import Settings
from eventstore.support.timing import TIMING, Timing
from projections.read_models import ReadModels
from tests.unit.domain.given import AGENT, event, publish

PATIENCE_S = 15.0
TENANT = "default"
Fields = dict[bytes, bytes]
T = TypeVar("T")
QUICK = Timing(connect_s=0.5, reply_s=2.0, probe_s=0.2, retry_s=0.3)
"""Of a client that meets an engine that is away, or hangs."""


def chosen(**settings: Any) -> Settings:
    """These settings, and the defaults of the others. Pydantic checks them: a type checker takes a field with a default
    for a required one where `Field` is given the default by its place."""
    return Settings(**settings)


def stand_in(double: object) -> Any:
    """For a class of the product: has no more of it than the test needs."""
    return double


def generator(items: AsyncIterator[T]) -> AsyncGenerator[T]:
    """What `follow` gives, which can also be closed, and whose next item a task can wait for."""
    assert isinstance(items, AsyncGenerator)
    return items


async def open_at(url: str, settings: Settings, *, start: bool = True, timing: Timing = TIMING) -> EventStore:
    """A store with a client of its own, as a process has. End it with `close`."""
    client = RedisClient(url, timing=timing)
    try:
        return await open_store(client, settings, start=start)
    except BaseException:
        await client.close()
        raise


async def close(store: EventStore) -> None:
    """Close a store, and its client."""
    await store.close()
    await client_of(store).close()


def client_of(store: EventStore) -> RedisClient:
    """The client of a store: to look at what it has written, past the store itself."""
    return store._client


def models_of(store: EventStore) -> ReadModels:
    """Its read models, as one more process would have them."""
    return ReadModels(client_of(store), store)


async def until(condition: Callable[[], Awaitable[object] | object], patience_s: float = PATIENCE_S) -> None:
    """Wait until this holds."""
    async with asyncio.timeout(patience_s):
        while True:
            held = condition()
            if await held if isinstance(held, Awaitable) else held:
                return
            await asyncio.sleep(0.005)


async def create(store: EventStore, session_id: str = "s1", **more: Any) -> Answer:
    return await store.execute(TENANT, session_id, CreateSession(session_id, **more), AGENT)


async def send(
    store: EventStore, *asked: NewEvent | Command, session_id: str = "s1", retry: Retry | None = None, by=AGENT
) -> Answer:
    """Carry out one command, or publish these events."""
    events = [one for one in asked if isinstance(one, NewEvent)]
    if events:
        assert len(events) == len(asked), "either events, or one command"
        return await store.execute(TENANT, session_id, publish(*events), by, retry)
    (command,) = asked
    assert not isinstance(command, NewEvent)
    return await store.execute(TENANT, session_id, command, by, retry)


def note(text: object = "") -> NewEvent:
    return event("note.taken", text=text)


def key(name: str, body: str = "body") -> Retry:
    return Retry(f"anna POST /x {name}", body)


async def stored(store: EventStore, session_id: str = "s1") -> list[dict[str, Any]]:
    """Every event of the log, read past the event store, so that the reading changes nothing."""
    entries = await client_of(store).client.xrange(store.session_keys(TENANT, session_id).events)
    events = [json.loads(fields[b"e"]) for _, fields in entries]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)), "the log is not dense"
    return events


async def stream(redis: Redis, key: str, first: str = "-", last: str = "+") -> list[tuple[bytes, Fields]]:
    """The entries of a stream, as a client gives them that decodes nothing."""
    return cast("list[tuple[bytes, Fields]]", await redis.xrange(key, first, last))


async def hash_fields(redis: Redis, key: str) -> Fields:
    """A hash, as a client gives it that decodes nothing."""
    return cast("Fields", await redis.hgetall(key))


async def types(store: EventStore, session_id: str = "s1") -> list[str]:
    return [event["type"] for event in await stored(store, session_id)]


async def texts(store: EventStore, session_id: str = "s1") -> list[Any]:
    """What the notes of a session say, in their order."""
    return [event["data"]["text"] for event in await stored(store, session_id) if event["type"] == "note.taken"]


async def count(store: EventStore, kind: str, session_id: str = "s1") -> int:
    return (await types(store, session_id)).count(kind)


async def skip_without_waitaof(client: Redis) -> None:
    """Skip a test on an engine that cannot say what is on disk, such as Redis 7.0."""
    try:
        await client.execute_command("WAITAOF", 0, 0, 1)
    except ResponseError:
        pytest.skip("this engine has no WAITAOF")


async def now(store: EventStore) -> int:
    """The engine's clock, in milliseconds."""
    seconds, micros = await client_of(store).command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def passed(store: EventStore, ms: int) -> None:
    """Wait until this time is past for the engine, and for what the store writes next: its estimate of the engine's
    clock is never ahead of it, but may be behind."""

    async def is_past() -> bool:
        if store.clock.known and store.clock.now() <= ms:
            return False
        return await now(store) > ms

    await until(is_past)
