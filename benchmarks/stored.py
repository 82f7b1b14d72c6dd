"""What Layby stores of events, as a client of the engine finds it."""

from __future__ import annotations

import json

from redis import Redis

from benchmarks.sides import EVENT
from eventstore.domain.api_keys import DEFAULT_TENANT
from eventstore.redis_keys import Keys
from proofs.engines import EngineClient

LINE = (
    '{"seq":1,"type":"message.appended","time":"2026-11-29T12:00:00.123Z","by":"anonymous","data":'
    + json.dumps(EVENT["data"], separators=(",", ":"))
    + "}"
)
"""The line of an event of the usual size: bare commands carry the same bytes."""


def engine_at(url: str) -> EngineClient:
    """A client of the engine at this address."""
    return Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]  # its further options have no types


def log_key(engine: EngineClient, path: str) -> str:
    """Of the stream with the events of the session at this path."""
    partitions = int(engine.hget("layby:store", "partitions"))
    return Keys(partitions).session(DEFAULT_TENANT, path.rpartition("/")[2]).events


def lines(engine: EngineClient, path: str) -> list[bytes]:
    """All of them, in order."""
    return [entry[b"e"] for _, entry in engine.xrange(log_key(engine, path))]
