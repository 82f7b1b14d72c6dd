"""The messages of a publisher's line: what each asks for, and how it is answered."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from api.http import problems
from api.requests.bodies import parse_json
from api.requests.events import BATCH_BYTES, check_events
from eventstore.domain.commands import NewEvent, Publish
from eventstore.domain.errors import FieldError, InvalidRequest, LaybyError, TooLarge
from eventstore.domain.values import json_text

BESIDE_EVENTS: Final = 64 * 1024
"""Bytes of a message beside its events, which are small."""
MESSAGE_BYTES: Final = BATCH_BYTES + BESIDE_EVENTS
"""The events may be as large as the body of a request."""
ID_MAX: Final = 200
"""The longest id of a message, in characters: as long as an idempotency key, which it may become a part of."""
_MEMBERS: Final = frozenset({"id", "events", "expected_seq"})

Message = dict[str, Any]


def read(data: bytes) -> Message:
    """Raises `InvalidRequest`."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise InvalidRequest.unreadable("a message must be a JSON object")
    return cast(Message, value)


def id_of(message: Message) -> str:
    """Raises `InvalidRequest`."""
    name = message.get("id")
    if not isinstance(name, str) or not 1 <= len(name) <= ID_MAX:
        what = "is required" if name is None else f"must be a string of 1 to {ID_MAX} characters"
        raise InvalidRequest.body("/id", what)
    return name


def command_of(message: Message, data: bytes) -> Publish:
    """Judged as a request with these events as its body would be. `data` is the message as it came.

    Raises `InvalidRequest`, `TooLarge`.
    """
    if errors := _found(message):
        raise InvalidRequest.of(errors)
    return Publish(_events(message["events"], data), message.get("expected_seq"))


def events_text(data: bytes) -> bytes:
    """The events of a message, byte for byte as they were sent; all of it where they cannot be told apart."""
    try:
        return bytes(_cut_out(data).events)
    except ValueError:
        return data


class _Envelope(msgspec.Struct):
    events: msgspec.Raw


_cut_out = msgspec.json.Decoder(_Envelope).decode


def _events(values: list[Any], data: bytes) -> list[NewEvent]:
    if len(data) > BATCH_BYTES and (size := len(events_text(data))) > BATCH_BYTES:
        raise TooLarge(f"the events have {size} bytes; a batch has at most {BATCH_BYTES}")
    return check_events(values, len(data), "/events")


def _found(message: Message) -> list[FieldError]:
    """What is wrong beside the id and the events themselves."""
    errors: list[FieldError] = []
    events, expected = message.get("events"), message.get("expected_seq")
    if not isinstance(events, list):
        what = "is required" if events is None else "must be an array of events"
        errors.append(FieldError(what, pointer="/events"))
    if expected is not None and (type(expected) is not int or expected < 0):
        errors.append(FieldError("must be a version: a whole number", pointer="/expected_seq"))
    if not message.keys() <= _MEMBERS:
        wrong = (f"/{json_text.escape_pointer(name)}" for name in message if name not in _MEMBERS)
        errors += [FieldError("is not a member of a message", pointer=pointer) for pointer in wrong]
    return errors


def answer(name: str, result: dict[str, Any], durability: str) -> bytes:
    """`result`: what publishing the events came to."""
    told = {
        "id": name,
        "first_seq": result["first_seq"],
        "last_seq": result["last_seq"],
        "events": result["events"],
        "durability": durability,
    }
    return json_text.dumps(told).encode()


def refusal(name: str | None, error: LaybyError, instance: str) -> bytes:
    """A message whose id cannot be told is known by its place in the row."""
    told = {"id": name, "problem": problems.document(error, instance)}
    return json_text.dumps(told).encode("utf-8", errors="replace")
