"""Query parameters, strictly read: a wrong value is 400 and names its parameter; of a repeated one the last counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, cast
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from eventstore.domain.errors import InvalidRequest
from eventstore.domain.events import TYPE_MAX, TYPE_PATTERN, line_type
from eventstore.domain.values import timestamps

LIST_DEFAULT: Final = 50
LIST_MAX: Final = 1_000
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_POINT = re.compile(r"[1-9][0-9]*", re.ASCII)
_LARGEST: Final = 2**53 - 1
"""No log is as long."""
_PREFIX = re.compile(r"([a-z][a-z0-9_]*\.)+\*", re.ASCII)

Order = Literal["asc", "desc"]


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


def text(request: Request, name: str) -> str | None:
    return request.query_params.get(name)


def whole(request: Request, name: str, least: int, most: int = _LARGEST) -> int | None:
    """An integer within these bounds, or None where it is not given."""
    value = request.query_params.get(name)
    if value is None:
        return None
    number = int(value) if _WHOLE.fullmatch(value) else None
    if number is None or not least <= number <= most:
        bounds = f"at least {least}" if most == _LARGEST else f"from {least} to {most}"
        raise InvalidRequest.parameter(name, f"must be a whole number, {bounds}")
    return number


def point(request: Request, name: str) -> int | None:
    """A place in a log, or None where it is not given."""
    value = request.query_params.get(name)
    return seq(value) if value and _POINT.fullmatch(value) else whole(request, name, 1)


def seq(digits: str) -> int:
    """A place in a log. However large the number is, it is a number: one beyond every end."""
    return int(digits) if len(digits.lstrip("0")) <= 15 else _LARGEST


def list_limit(request: Request) -> int:
    limit = whole(request, "limit", 1, LIST_MAX)
    return LIST_DEFAULT if limit is None else limit


def word(request: Request, name: str, words: Sequence[str]) -> str | None:
    """One of these words, or None where it is not given."""
    value = request.query_params.get(name)
    if value is not None and value not in words:
        raise InvalidRequest.parameter(name, f"must be one of {', '.join(words)}")
    return value


def flag(request: Request, name: str) -> bool | None:
    value = word(request, name, ("true", "false"))
    return None if value is None else value == "true"


def order(request: Request) -> Order:
    return cast(Order, word(request, "order", ("asc", "desc")) or "asc")


def instant(request: Request, name: str) -> int | None:
    """An RFC 3339 time in milliseconds, or None where it is not given."""
    value = request.query_params.get(name)
    if value is None:
        return None
    try:
        return timestamps.parse(value)
    except ValueError as error:
        raise InvalidRequest.parameter(name, f"is {error}") from None


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


def types(request: Request) -> Types:
    value = request.query_params.get("types")
    if value is None:
        return Types(())
    patterns = value.split(",")
    for pattern in patterns:
        if not (pattern == "*" or _PREFIX.fullmatch(pattern) or _is_type(pattern)):
            raise InvalidRequest.parameter("types", "must be types by comma, each exact, like step.*, or *")
    return Types(patterns)


def _is_type(pattern: str) -> bool:
    return len(pattern) <= TYPE_MAX and TYPE_PATTERN.fullmatch(pattern) is not None
