"""What publishers send: one event, an array of them, or NDJSON. Read by hand, since this is the busiest road."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

from api.requests.bodies import bad_json, parse_json
from eventstore.domain.commands import NewEvent
from eventstore.domain.errors import FieldError, InvalidRequest, TooLarge
from eventstore.domain.events import EVENT_BYTES, TYPE_MAX, TYPE_PATTERN
from eventstore.domain.values import json_text, timestamps
from eventstore.domain.values.json_text import BadJson

BATCH_BYTES: Final = 4 * 1024 * 1024
"""The most bytes that a batch has as it is sent: half of what one commit may hold."""
BATCH_EVENTS: Final = 1_000
"""The most events of a batch: one commit appends them all, and a reader may get them at once."""
ERRORS_TOLD: Final = 20
"""How many wrong fields of a batch are listed: enough to see what is wrong with all of them."""
_MEMBERS: Final = frozenset({"type", "data", "occurred_at"})


def read_events(body: bytes, *, lines: bool) -> list[NewEvent]:
    """The events of a body; `lines` means NDJSON. Raises `InvalidRequest` with all that is wrong, and `TooLarge`."""
    if lines:
        return check_events(_parse_lines(body), len(body))
    value = parse_json(body)
    if isinstance(value, dict):
        return check_events([value], len(body), single=True)
    if not isinstance(value, list):
        raise InvalidRequest.unreadable("the body must be an event, or an array of events")
    return check_events(cast("list[Any]", value), len(body))


def _parse_lines(body: bytes) -> list[Any]:
    if not body:
        raise InvalidRequest.unreadable("the request needs a body of at least one event")
    events = list[Any]()
    for line in body.split(b"\n"):
        if line and not line.isspace():
            if len(events) == BATCH_EVENTS:
                raise _too_many()
            try:
                events.append(json_text.loads(line))
            except BadJson as error:
                raise bad_json(error, f"/{len(events)}") from None
    return events


def check_events(values: list[Any], size: int, at: str = "", *, single: bool = False) -> list[NewEvent]:
    """Parsed events, each checked and with its place in the body. `size`: their bytes or more; `at`: where they are."""
    if not values:
        raise InvalidRequest.body(at, "must hold at least one event")
    if len(values) > BATCH_EVENTS:
        raise _too_many()
    found = _Found()
    for index, value in enumerate(values):
        found.take(value, at if single else f"{at}/{index}")
    if found.errors:
        raise InvalidRequest.of(found.errors)
    if size > EVENT_BYTES:
        _refuse_large(values)
    return found.events


def _too_many() -> TooLarge:
    return TooLarge(f"a batch has at most {BATCH_EVENTS} events; send several")


def _refuse_large(values: list[Any]) -> None:
    for index, value in enumerate(values):
        size = len(json_text.dumps(value).encode())
        if size > EVENT_BYTES:
            raise TooLarge(f"event {index} has {size} bytes; an event has at most {EVENT_BYTES}", index=index)


@lru_cache(maxsize=1_024)
def _is_type(kind: str) -> bool:
    """Remembered, since publishers use few of them, over and over."""
    return TYPE_PATTERN.fullmatch(kind) is not None


class _Found:
    """The events of a body, and what is wrong with them."""

    def __init__(self) -> None:
        self.events: list[NewEvent] = []
        self.errors: list[FieldError] = []

    def take(self, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            return self._wrong(pointer, "must be an event, an object")
        event = cast("dict[str, Any]", value)
        kind, data, occurred = event.get("type"), event.get("data"), event.get("occurred_at")
        if not isinstance(kind, str):
            self._wrong(f"{pointer}/type", "is required" if kind is None else "must be a string")
        elif len(kind) > TYPE_MAX or not _is_type(kind):
            self._wrong(f"{pointer}/type", f"must be lower-case words joined by dots, at most {TYPE_MAX} characters")
        if data is not None and not isinstance(data, dict):
            self._wrong(f"{pointer}/data", "must be an object")
        if occurred is not None:
            self._check_time(occurred, f"{pointer}/occurred_at")
        if not event.keys() <= _MEMBERS:
            for name in event.keys() - _MEMBERS:
                self._wrong(f"{pointer}/{json_text.escape_pointer(name)}", "is not a member of an event")
        if not self.errors:
            self.events.append(NewEvent(cast(str, kind), cast("dict[str, Any]", data or {}), occurred, pointer))
        return None

    def _check_time(self, value: Any, pointer: str) -> None:
        try:
            timestamps.parse(value)
        except (ValueError, TypeError):
            self._wrong(pointer, "must be an RFC 3339 time such as 2026-11-29T12:00:00.123Z")

    def _wrong(self, pointer: str, message: str) -> None:
        if len(self.errors) < ERRORS_TOLD:
            self.errors.append(FieldError(message, pointer=pointer))
