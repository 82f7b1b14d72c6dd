"""JSON Schema (draft 2020-12) for answers. References stay inside; patterns run in linear time; the work is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from eventstore.domain.errors import FieldError
from eventstore.domain.schemas import pattern_cost, schema_cost
from eventstore.domain.values import json_text

_MOST_ERRORS = 20
_ONE_PART = 200
"""Bytes of a compiled pattern that take as long to compile as another part of a schema."""


class Unfit(ValueError):
    """This is no schema for answers; the message says why."""


def _no_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside this schema; references must stay inside it")


def _validator(schema: Any, room: int) -> jsonschema_rs.Draft202012Validator:
    """`room`: what its patterns may become together; they share alike."""
    share = room // max(1, len(pattern_cost.find(schema)))
    options = jsonschema_rs.RegexOptions(size_limit=share)
    return jsonschema_rs.Draft202012Validator(schema, retriever=_no_fetch, pattern_options=options)


def check(schema: Any) -> int:
    """What it costs to compile the schema, in bytes of compiled patterns. Raises `Unfit`."""
    if not isinstance(schema, (dict, bool)):
        raise Unfit("must be a JSON Schema: an object, or true or false")
    try:
        return schema_cost.parts(schema) * _ONE_PART + _room(schema)
    except schema_cost.TooHeavy as error:
        raise Unfit(str(error)) from None
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise Unfit(f"is not a JSON Schema (draft 2020-12): {_text(error)}{_or_too_large(error)}") from None


def _room(schema: Any) -> int:
    """In how much the patterns have room. Raises what the library says of a schema that is none, or too large."""
    if not pattern_cost.find(schema):
        _validator(schema, 1)
        return 0
    for room in pattern_cost.ROOMS[:-1]:
        try:
            _validator(schema, room)
        except (jsonschema_rs.ValidationError, ValueError):
            continue
        return room
    _validator(schema, pattern_cost.ROOMS[-1])
    return pattern_cost.ROOMS[-1]


def errors(schema: Any, answer: Any, pointer: str) -> list[FieldError]:
    """Where the answer breaks the schema; a missing member is pointed at by its own name."""
    try:
        if schema_cost.work(schema, answer) > schema_cost.MOST_WORK:
            return [FieldError("is too large to be checked against the schema of this call", pointer=pointer)]
        if pattern_cost.too_long(schema, answer):
            return [FieldError("is too long to be checked against the patterns of this call", pointer=pointer)]
        tell = schema_cost.may_tell(schema, answer)
        validator = _validator(schema, pattern_cost.COMPILED_BYTES)
    except (jsonschema_rs.ValidationError, ValueError):  # asked of a version that took larger ones
        return [FieldError("cannot be checked: the schema of this call, or a pattern in it, is too large", pointer)]
    try:
        return _found(validator, answer, pointer, tell=tell)
    except ValueError:  # an integer longer than the library can hold
        return _found(validator, json_text.clipped(answer), pointer, tell=tell)


@dataclass(slots=True)
class Checked:
    """The errors of one answer, looked for once: a command may be decided several times, and this is what costs."""

    _schema: Any = None
    _errors: list[FieldError] | None = None

    def errors(self, schema: Any, answer: Any, pointer: str) -> list[FieldError]:
        """As above; the answer must be the same each time."""
        if self._errors is None or not json_text.same(self._schema, schema):
            self._schema, self._errors = schema, errors(schema, answer, pointer)
        return self._errors


def _found(validator: jsonschema_rs.Draft202012Validator, answer: Any, pointer: str, *, tell: bool) -> list[FieldError]:
    if tell:
        found = islice(validator.iter_errors(answer), _MOST_ERRORS)
        return [FieldError(_text(error), pointer=pointer + _place(error)) for error in found]
    if validator.is_valid(answer):
        return []
    return [FieldError("does not fit the schema of this call, and is too large to be told where", pointer=pointer)]


def _text(error: Exception) -> str:
    return str(getattr(error, "message", error)).partition("\n")[0][:300]


def _or_too_large(error: Exception) -> str:
    """The library knows one word for both."""
    pattern = isinstance(getattr(error, "kind", None), jsonschema_rs.ValidationErrorKind.Format)
    return ", or one that is too large" if pattern else ""


def _place(error: jsonschema_rs.ValidationError) -> str:
    names = [str(part) for part in error.instance_path]
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        names.append(kind.property)
    return "".join("/" + json_text.escape_pointer(name) for name in names)
