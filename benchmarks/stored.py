"""What Layby stores of events, as a client of the engine finds it."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.sides import EVENT
from eventstore.domain.access import DEFAULT_TENANT
from eventstore.keys import Keys

LINE = (
    '{"seq":1,"type":"message.appended","time":"2026-11-29T12:00:00.123Z","by":"anonymous","data":'
    + json.dumps(EVENT["data"], separators=(",", ":"))
    + "}"
)
"""The line of an event of the usual size: bare commands carry the same bytes."""


def log_key(engine: Any, path: str) -> str:
    """Of the stream with the events of the session at this path. `engine` is a client of redis-py."""
    partitions = int(engine.hget("layby:store", "partitions"))
    return Keys(partitions).session(DEFAULT_TENANT, path.rpartition("/")[2]).events


def lines(engine: Any, path: str) -> list[bytes]:
    """All of them, in order."""
    return [entry[b"e"] for _, entry in engine.xrange(log_key(engine, path))]
