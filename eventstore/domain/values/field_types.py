"""Field types that several requests share, and how pydantic's findings become ours."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError

from eventstore.domain.errors import FieldError
from eventstore.domain.values import json_text, timestamps

SESSION_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
NAME_MAX = 200
NOTE_MAX = 10_000
METADATA_BYTES = 256 * 1024
INTERRUPT_ID_MAX = 200
INTERRUPT_ID = re.compile(rf"[^/\u0000-\u001f\u007f-\u009f]{{1,{INTERRUPT_ID_MAX}}}")

_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a field of {document}",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "list_type": "must be an array",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def session_id(value: str) -> str:
    """A session id that a caller chose. Raises ValueError."""
    if value in (".", "..") or not SESSION_ID.fullmatch(value):
        raise ValueError("must be 1 to 128 of the characters A-Z a-z 0-9 _ . : - and not . or ..")
    return value


def interrupt_id(value: str) -> str:
    """The id of a call. Raises ValueError."""
    if not INTERRUPT_ID.fullmatch(value):
        raise ValueError(f"must be 1 to {INTERRUPT_ID_MAX} characters, with no control character and no /")
    return value


def instant(value: str) -> str:
    """An RFC 3339 time, kept as it was written. Raises ValueError."""
    try:
        timestamps.parse(value)
    except ValueError as error:
        raise ValueError(f"is {error}") from None
    return value


def at_most(characters: int) -> AfterValidator:
    """Text of no more than this."""

    def check(value: str) -> str:
        if len(value) > characters:
            raise ValueError(f"must be at most {characters} characters")
        return value

    return AfterValidator(check)


def metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError beyond the size of an event."""
    if len(json_text.dumps(value).encode()) > METADATA_BYTES:
        raise ValueError(f"must be at most {METADATA_BYTES} bytes of JSON")
    return value


SessionId = Annotated[str, AfterValidator(session_id)]
Name = Annotated[str, at_most(NAME_MAX)]
"""An agent, a run, a tool, an owner: kept where every commit, or every list, has to carry it."""
Note = Annotated[str, at_most(NOTE_MAX)]
Metadata = Annotated[dict[str, Any], AfterValidator(metadata)]
InterruptId = Annotated[str, AfterValidator(interrupt_id)]
Instant = Annotated[str, AfterValidator(instant)]


def field_errors(
    error: ValidationError, pointer: str = "", sent: dict[str, str] | None = None, document: str = "this request"
) -> list[FieldError]:
    """Pydantic's findings in our words, each with its place in the body. `sent`: how the sender spelled a top-level
    name. `document`: what has the fields."""
    return [
        FieldError(_message(found, document), pointer=pointer + _place(found["loc"], sent)) for found in error.errors()
    ]


def _place(location: tuple[Any, ...], sent: dict[str, str] | None) -> str:
    names = [str(name) for name in location]
    if names and sent:
        names[0] = sent.get(names[0], names[0])
    return "".join("/" + json_text.escape_pointer(name) for name in names)


def _message(found: Any, document: str) -> str:
    if found["type"] == "int_type" and isinstance(found["input"], json_text.LongInteger):
        return "is out of range"
    if known := _MESSAGES.get(found["type"]):
        return known.format(**found.get("ctx", {}), document=document)
    return str(found["msg"]).removeprefix("Value error, ").removeprefix("Input ")
