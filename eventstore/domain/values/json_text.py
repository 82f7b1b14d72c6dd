"""JSON as Layby keeps it: strict on the way in, one line on the way out, canonical for digests.

msgspec reads and writes what it can, which is nearly everything, several times faster than the standard library. What
it refuses is looked at again by the standard library, which either says exactly what is wrong, or knows better.

Integers keep every digit, whatever their size (the standard library stops at 4,300 digits, to guard against
quadratic conversion; longer ones travel as text, in `LongInteger`).
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NoReturn, cast

import msgspec
import rfc8785

MAX_DEPTH = 100
_LONGEST_PLAIN_INTEGER = 4_000
_LARGEST_PLAIN = 10**4_300 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_BREAKS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}


class BadJson(ValueError):
    """The text is not JSON that Layby accepts; the message says why, `pointer` where (if that is known)."""

    def __init__(self, message: str, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer: str = pointer


class LongInteger:
    """An integer too long to convert cheaply, kept as its digits."""

    __slots__: tuple[str, ...] = ("digits",)

    def __init__(self, digits: str) -> None:
        self.digits: str = digits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongInteger) and other.digits == self.digits

    def __hash__(self) -> int:
        return hash(self.digits)

    def __repr__(self) -> str:
        return self.digits


def loads(text: bytes | str) -> Any:
    """Parse strictly. Raises `BadJson` for bad UTF-8, NaN, Infinity, lone surrogates and nesting beyond 100 levels.

    Of duplicate names the last counts (RFC 8259 leaves the choice).
    """
    try:
        value = _decode(text)
    except (ValueError, RecursionError):
        value = _loads_slowly(text)
    if _may_be_deep(text) and _is_deeper(value, MAX_DEPTH):
        _search(value, "", 0)
    return value


def _loads_slowly(text: bytes | str) -> Any:
    try:
        value = _parse(text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError as error:
        raise BadJson(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise BadJson(f"nested deeper than {MAX_DEPTH} levels") from None
    _search(value, "", 0)
    return value


def _may_be_deep(text: bytes | str) -> bool:
    """Whether a count of brackets cannot rule it out."""
    if isinstance(text, str):
        return text.count("[") + text.count("{") > MAX_DEPTH
    return text.count(b"[") + text.count(b"{") > MAX_DEPTH


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether arrays and objects stand in one another more often than so."""
    if type(value) is dict:
        items: Iterable[Any] = cast("dict[str, Any]", value).values()
    elif type(value) is list:
        items = cast("list[Any]", value)
    else:
        return False
    if not levels:
        return True
    for item in items:  # noqa: SIM110  # a generator takes twice as long, on the busiest road
        if (type(item) is dict or type(item) is list) and _is_deeper(item, levels - 1):
            return True
    return False


def read(text: bytes | str) -> Any:
    """Parse what Layby itself has written: it was checked on its way in, and may lie a level deeper now."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return _parse(text.decode() if isinstance(text, bytes) else text)


def _parse(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError:
        raise
    except BadJson:
        raise
    except ValueError:  # an integer beyond the standard library's limit: parse again, keeping such as text
        return _long_decoder.decode(text)


def _integer(digits: str) -> int | LongInteger:
    return int(digits) if len(digits) <= _LONGEST_PLAIN_INTEGER else LongInteger(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadJson(f"the number {digits[:40]} is too large for a double")
    return value


def _constant(name: str) -> NoReturn:
    raise BadJson(f"{name} is not JSON")


_decode = msgspec.json.Decoder().decode
_decoder = json.JSONDecoder(parse_constant=_constant, parse_float=_float)
_long_decoder = json.JSONDecoder(parse_constant=_constant, parse_float=_float, parse_int=_integer)


def _search(value: Any, pointer: str, depth: int) -> None:
    if isinstance(value, str):
        _refuse_surrogates(value, pointer)
    elif members := _members(value):
        if depth >= MAX_DEPTH:
            raise BadJson(f"nested deeper than {MAX_DEPTH} levels", pointer)
        for name, item in members:
            _refuse_surrogates(name, pointer)
            _search(item, f"{pointer}/{escape_pointer(name)}", depth + 1)


def _members(value: Any) -> Iterable[tuple[str, Any]] | None:
    match value:
        case dict():
            return cast("dict[str, Any]", value).items()
        case list():
            return ((str(index), item) for index, item in enumerate(cast("list[Any]", value)))
        case _:
            return None


def _refuse_surrogates(text: str, pointer: str) -> None:
    if _SURROGATE.search(text):
        raise BadJson("a lone surrogate is not a character", pointer)


def escape_pointer(name: str) -> str:
    """One reference token of a JSON pointer (RFC 6901, section 3)."""
    return name.replace("~", "~0").replace("/", "~1")


def dumps(value: Any) -> str:
    """One compact line for any reader of lines: U+2028, U+2029 and U+0085 are escaped. `value`: as `loads` gives it."""
    try:
        text = _fast_encode(value).decode()
    except (TypeError, ValueError):  # an integer longer than it writes, or one that travels as text
        text = _dumps_long(value)
    if text.isascii():
        return text
    for character, escaped in _LINE_BREAKS.items():
        if character in text:
            text = text.replace(character, escaped)
    return text


_fast_encode = msgspec.json.Encoder().encode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _dumps_long(value: Any) -> str:
    """The same, with each `LongInteger` put in through a mark that no text can hold by accident."""
    mark, long = secrets.token_hex(16), list[str]()

    def stand_in(item: Any) -> str:
        if not isinstance(item, LongInteger):
            raise TypeError(f"{type(item).__name__} is not JSON")
        long.append(item.digits)
        return f"{mark}{len(long) - 1}"

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=stand_in)
    return re.sub(f'"{mark}(\\d+)"', lambda found: long[int(found[1])], text)


def clipped(value: Any) -> Any:
    """The same, with each `LongInteger` cut down to the largest plain one, for judges that know no longer ones."""
    match value:
        case LongInteger():
            return -_LARGEST_PLAIN if value.digits.startswith("-") else _LARGEST_PLAIN
        case dict():
            return {name: clipped(item) for name, item in cast("dict[str, Any]", value).items()}
        case list():
            return [clipped(item) for item in cast("list[Any]", value)]
        case _:
            return value


def canonical(value: Any) -> str:
    """Canonical JSON (RFC 8785), except that integers are written in full. Two equal values give the same text."""
    match value:
        case None | bool() | str():
            return _encode(value)
        case int():
            return str(value)
        case float():
            return rfc8785.dumps(value).decode()
        case LongInteger():
            return value.digits
        case dict():
            members = sorted(cast("dict[str, Any]", value).items(), key=_utf16)
            return "{" + ",".join(f"{_encode(name)}:{canonical(item)}" for name, item in members) + "}"
        case _:
            return "[" + ",".join(map(canonical, value)) + "]"


def _utf16(member: tuple[str, Any]) -> bytes:
    return member[0].encode("utf-16-be")


def digest(value: Any) -> str:
    """`sha256:` and the hex digest of the canonical text."""
    return "sha256:" + sha256(canonical(value).encode()).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: unlike in Python, `true` is not `1`."""
    return canonical(one) == canonical(other)
