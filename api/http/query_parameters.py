"""Kinds of query parameters, strictly read: a wrong value is 400 and names its parameter.

Of a parameter that is repeated the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

from api.http import json_schema
from api.http.json_schema import Node
from api.http.parameter_types import QueryParameter
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.events import TYPE_MAX, TYPE_PATTERN, line_type
from eventstore.domain.values import timestamps

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_SEQ = re.compile(r"[1-9][0-9]*", re.ASCII)
_LARGEST: Final = 2**53 - 1
"""No log is as long."""
_PREFIX = re.compile(r"([a-z][a-z0-9_]*\.)+\*", re.ASCII)
_Default = TypeVar("_Default", str, None)


def refuse_unknown(query: bytes, known: frozenset[str]) -> None:
    """Raises `InvalidRequest` for a parameter that a route does not have, and for one that is no UTF-8."""
    for part in query.split(b"&"):
        name, _, value = (_decoded(half) for half in part.partition(b"="))
        if name is None or value is None or not query.isascii():
            raise InvalidRequest.parameter(name or "", "must be UTF-8, percent-encoded")
        if part and name not in known:
            others = f"this route has {', '.join(sorted(known))}" if known else "this route has none"
            raise InvalidRequest.parameter(name, f"is no parameter here; {others}")


def _decoded(raw: bytes) -> str | None:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        return None


def text(name: str, description: str, *, component: str = "") -> QueryParameter[str | None]:
    """Any text."""
    return QueryParameter(name, description, json_schema.text(), str, None, component=component)


def matching(name: str, description: str, pattern: re.Pattern[str], wanted: str) -> QueryParameter[str | None]:
    """Text of a pattern; `wanted` says in words what that is."""

    def parse(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"must be {wanted}")
        return value

    return QueryParameter(name, description, json_schema.text(pattern=f"^{pattern.pattern}$"), parse, None)


def whole(
    name: str, description: str, *, least: int, most: int, default: int, component: str = ""
) -> QueryParameter[int]:
    """An integer within these bounds."""

    def parse(value: str) -> int:
        number = int(value) if _WHOLE.fullmatch(value) else None
        if number is None or not least <= number <= most:
            raise ValueError(f"must be a whole number, from {least} to {most}")
        return number

    schema = json_schema.integer(minimum=least, maximum=most, default=default)
    return QueryParameter(name, description, schema, parse, default, component=component)


def position(name: str, description: str, *, component: str = "") -> QueryParameter[int | None]:
    """A place in a log."""
    return QueryParameter(name, description, json_schema.integer(minimum=1), _position, None, component=component)


def _position(value: str) -> int:
    if not _SEQ.fullmatch(value):
        raise ValueError("must be a whole number, at least 1")
    return seq(value)


def seq(digits: str) -> int:
    """A place in a log. However large the number is, it is a number: one beyond every end."""
    return int(digits) if len(digits.lstrip("0")) <= 15 else _LARGEST


def word(
    name: str,
    description: str,
    words: Sequence[str],
    default: _Default,
    *,
    schema: Node | None = None,
    component: str = "",
) -> QueryParameter[str | _Default]:
    """One of these words. `schema` stands for a list of them that the document has already."""

    def parse(value: str) -> str:
        return _one_of(value, words)

    known = schema or json_schema.words(*words)
    told = known if default is None else {**known, "default": default}
    return QueryParameter(name, description, told, parse, default, component=component)


def flag(name: str, description: str) -> QueryParameter[bool | None]:
    """`true` or `false`."""
    return QueryParameter(name, description, json_schema.flag(), _flag, None)


def _flag(value: str) -> bool:
    return _one_of(value, ("true", "false")) == "true"


def _one_of(value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"must be one of {', '.join(words)}")
    return value


def instant(name: str, description: str) -> QueryParameter[int | None]:
    """An RFC 3339 time, in milliseconds."""
    return QueryParameter(name, description, json_schema.time(), _instant, None)


def _instant(value: str) -> int:
    try:
        return timestamps.parse(value)
    except ValueError as error:
        raise ValueError(f"is {error}") from None


class Types:
    """`types`: which events a reader wants. Exact types, `prefix.*`, or `*` for all."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.all: bool = not patterns or "*" in patterns
        self._exact: frozenset[str] = frozenset(patterns)
        self._prefixes: tuple[str, ...] = tuple(p.removesuffix("*") for p in patterns if p.endswith(".*"))

    def wants(self, kind: str) -> bool:
        return self.all or kind in self._exact or kind.startswith(self._prefixes)

    def wants_line(self, line: bytes) -> bool:
        """The same for a stored line, which is not parsed."""
        return self.all or self.wants(line_type(line))


def types(name: str, description: str) -> QueryParameter[Types]:
    """Patterns of `Types`, by comma."""
    schema = json_schema.text(pattern=r"^[a-z0-9_.*]+(,[a-z0-9_.*]+)*$", examples=["step.*,session.waiting"])
    return QueryParameter(name, description, schema, _types, Types(()))


def _types(value: str) -> Types:
    patterns = value.split(",")
    for pattern in patterns:
        if not (pattern == "*" or _PREFIX.fullmatch(pattern) or _is_type(pattern)):
            raise ValueError("must be types by comma, each exact, like step.*, or *")
    return Types(patterns)


def _is_type(pattern: str) -> bool:
    return len(pattern) <= TYPE_MAX and TYPE_PATTERN.fullmatch(pattern) is not None
