"""What happened: one event, its words, and its exact line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from eventstore.domain.values import json_text, timestamps

TYPE_PATTERN = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+", re.ASCII)
TYPE_MAX = 100
EVENT_BYTES = 256 * 1024
"""What one request may put into one event, as JSON."""

SERVICE = "layby"
"""The writer of events that the service derives by itself."""

ASKS = frozenset({"input.requested", "authorization.required"})
TURN_ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})
SESSION_ENDS = frozenset({"session.completed", "session.failed"})
STEPS = frozenset({"step.started", "step.completed", "step.interrupted"})
CALL_CLOSES = frozenset({"input.completed", "authorization.completed", "input.expired"})

RESERVED = frozenset(
    {
        "session.started",
        "session.waiting",
        "input.completed",
        "input.expired",
        "input.refused",
        "authorization.completed",
        "message.received",
        "action.claimed",
        "action.released",
        "action.lapsed",
        "action.settled",
    }
)
"""What only the service writes, through the calls made for it."""

GENESIS = "0" * 64
"""The hash before the first event of a session."""


@dataclass(slots=True)
class Event:
    """One recorded event. `time` is in milliseconds."""

    seq: int
    type: str
    time: int
    by: str
    data: dict[str, Any]
    via: str | None = None
    occurred_at: str | None = None

    def line(self) -> bytes:
        """The exact bytes that are stored and that every reader receives, without the line feed."""
        data = json_text.dumps(self.data)
        occurred = "" if self.occurred_at is None else f'"occurred_at":{json_text.dumps(self.occurred_at)},'
        return (
            f'{{"seq":{self.seq},"type":"{self.type}","time":"{_time_text(self.time)}",{occurred}'
            f'{_by_text(self.by, self.via)}"data":{data}}}'
        ).encode()


# The events of a batch have one time, and one who sent them.
_time_text = lru_cache(maxsize=64)(timestamps.text)
_time_read = lru_cache(maxsize=64)(timestamps.parse)


@lru_cache(maxsize=256)
def _by_text(by: str, via: str | None) -> str:
    return f'"by":{json_text.dumps(by)},' + ("" if via is None else f'"via":{json_text.dumps(via)},')


def parse_line(line: bytes) -> Event:
    """The event of a stored line."""
    raw = json_text.read(line)
    return Event(
        raw["seq"],
        raw["type"],
        _time_read(raw["time"]),
        raw["by"],
        raw["data"],
        raw.get("via"),
        raw.get("occurred_at"),
    )


def line_type(line: bytes) -> str:
    """The type of a stored line, without parsing it: it stands second, and holds no escapes."""
    start = line.index(b'"type":"') + 8
    return line[start : line.index(b'"', start)].decode()


def chain(previous: str, line: bytes) -> str:
    """The hash of an event: SHA-256 over the hash before it (64 hex digits) and the stored line."""
    return sha256(previous.encode() + line).hexdigest()
