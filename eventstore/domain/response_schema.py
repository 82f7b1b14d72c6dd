"""JSON Schema (draft 2020-12) for answers. References stay inside; patterns run in linear time; the work is bounded."""

from __future__ import annotations

from itertools import islice
from typing import Any

import jsonschema_rs

from eventstore.domain import jsontext, schema_weight
from eventstore.domain.errors import FieldError

_MOST_ERRORS = 20


def _no_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is outside this schema; references must stay inside it")


def _validator(schema: Any) -> jsonschema_rs.Draft202012Validator:
    options = jsonschema_rs.RegexOptions(size_limit=schema_weight.compiled_bytes(schema))
    return jsonschema_rs.Draft202012Validator(schema, retriever=_no_fetch, pattern_options=options)


def fault(schema: Any) -> str | None:
    """What is wrong with the schema itself, or None."""
    if not isinstance(schema, (dict, bool)):
        return "must be a JSON Schema: an object, or true or false"
    try:
        schema_weight.parts(schema)
        _validator(schema)
    except schema_weight.TooHeavy as error:
        return str(error)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        return f"is not a JSON Schema (draft 2020-12): {_text(error)}{_or_too_large(error)}"
    return None


def errors(schema: Any, answer: Any, pointer: str) -> list[FieldError]:
    """Where the answer breaks the schema; a missing member is pointed at by its own name."""
    if schema_weight.parts(schema) * schema_weight.values(answer) > schema_weight.MOST_WORK:
        return [FieldError("is too large to be checked against the schema of this call", pointer=pointer)]
    try:
        validator = _validator(schema)
    except (jsonschema_rs.ValidationError, ValueError):  # asked of a version that took larger patterns
        return [FieldError("cannot be checked: the patterns in the schema of this call are too large", pointer=pointer)]
    try:
        found = list(islice(validator.iter_errors(answer), _MOST_ERRORS))
    except ValueError:  # an integer longer than the library can hold
        found = list(islice(validator.iter_errors(jsontext.clipped(answer)), _MOST_ERRORS))
    return [FieldError(_text(error), pointer=pointer + _place(error)) for error in found]


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
    return "".join("/" + jsontext.escape_pointer(name) for name in names)
