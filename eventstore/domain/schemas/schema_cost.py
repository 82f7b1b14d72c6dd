"""How much work a JSON Schema can make.

Each part of a schema, with its references written out, meets each value of an answer; so the product of the two counts
bounds the work, if what costs more, or is looked at more than once, counts more. A schema that refers to itself has no
such bound (two branches that do take a time exponential in the depth of the answer), and neither has one whose
references fan out; both are refused when asked. What patterns cost is counted in `pattern_weight`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import unquote

from eventstore.domain.values.json_text import LongInteger

MOST_PARTS = 5_000
"""Parts of a schema, its references written out."""
MOST_WORK = 500_000
"""Parts of a schema times values of an answer: a fraction of a second."""
_MOST_TOLD = 5_000
"""Parts of a schema times places in an answer, up to which each error is told."""
MOST_DIGITS = 1_000
"""Digits of a number in a schema."""
_ONE_VALUE = 100
"""Characters of a text, or of a member's name, that count as one value."""
_PLAIN = frozenset({"const", "default", "enum", "examples", "$comment", "description", "title"})
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Members that hold schemas by names of the author's own, which mean nothing here."""
_DYNAMIC = ("$dynamicRef", "$recursiveRef")
_UNIQUE = 20
"""Parts that `uniqueItems` counts as: each value is hashed, and compared."""
_FRACTION = 10
"""Parts that `multipleOf` counts as at least, if it is no integer: it is reckoned with fractions of any size."""
_IF = 4
"""How often an `if` counts: `unevaluated…` asks it again, and again at each level of several."""


class TooHeavy(ValueError):
    """The schema's work has no bound, or too large a one; the message says what to change."""


def parts(schema: Any) -> int:
    """The parts of a schema with its references written out. Raises `TooHeavy`."""
    return _Counter(schema, _part).count(schema, ())


def patterns(schema: Any, counts: Callable[[str], bool]) -> int:
    """How many patterns of this sort a text may meet, references written out. Raises `TooHeavy`."""

    def one(name: str, part: Any) -> int:
        if name == "pattern" and isinstance(part, str):
            return counts(part)
        named = cast("dict[str, Any]", part) if name == "patternProperties" and isinstance(part, dict) else {}
        return sum(map(counts, named))

    return _Counter(schema, one).count(schema, ())


def work(schema: Any, answer: Any) -> int:
    """What it may cost to check an answer; a unit is about a microsecond. Raises `TooHeavy`."""
    total = parts(schema) * values(answer)
    return total + sum(_large(answer)) ** 2 if _asks_unique(schema) else total


def values(answer: Any) -> int:
    """The values in an answer, itself included; what is long counts as several."""
    match answer:
        case dict():
            members = cast("dict[str, Any]", answer).items()
            return 1 + sum(len(name) // _ONE_VALUE + values(value) for name, value in members)
        case list():
            return 1 + sum(map(values, cast("list[Any]", answer)))
        case str():
            return 1 + len(answer) // _ONE_VALUE
        case float():
            return 1 if not answer or 1e-20 < abs(answer) < 1e20 else 10
        case _:
            return 1 + (_digits(answer) // 100) ** 2


def may_tell(schema: Any, answer: Any) -> bool:
    """Whether all errors can be told: the library finds all of them first, and each takes up to 0.1 ms."""
    return parts(schema) * _places(answer) <= _MOST_TOLD


def _places(answer: Any) -> int:
    """The values in an answer that an error can be about; to repeat one that is long takes longer."""
    match answer:
        case dict():
            return 1 + sum(map(_places, cast("dict[str, Any]", answer).values()))
        case list():
            return 1 + sum(map(_places, cast("list[Any]", answer)))
        case str():
            return 1 + len(answer) // 1_000
        case _:
            return 1 + _digits(answer) // 200


def characters(answer: Any) -> int:
    """The bytes of all text in an answer, names of members included."""
    match answer:
        case str():
            return len(answer) if answer.isascii() else len(answer.encode(errors="replace"))
        case dict():
            return sum(characters(name) + characters(value) for name, value in cast("dict[str, Any]", answer).items())
        case list():
            return sum(map(characters, cast("list[Any]", answer)))
        case _:
            return 0


def _digits(value: Any) -> int:
    """About how many digits an integer has."""
    if isinstance(value, LongInteger):
        return len(value.digits)
    return int(value.bit_length() * math.log10(2)) + 1 if isinstance(value, int) else 0


def _large(answer: Any) -> Iterator[int]:
    """Integers beyond 64 bits, and what they weigh: each is compared with each other one, digit by digit."""
    if isinstance(answer, dict):
        answer = list(cast("dict[str, Any]", answer).values())
    if isinstance(answer, list):
        for value in cast("list[Any]", answer):
            yield from _large(value)
    elif (digits := _digits(answer)) > 18:
        yield 1 + digits // 20


def _asks_unique(schema: Any) -> bool:
    """Whether the word stands anywhere, even where it means something else."""
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema)
        return "uniqueItems" in members or any(map(_asks_unique, members.values()))
    return isinstance(schema, list) and any(map(_asks_unique, cast("list[Any]", schema)))


def _part(name: str, part: Any) -> int:
    """What a member counts as, besides what stands in it."""
    match name, part:
        case "uniqueItems", True:
            return _UNIQUE
        case "multipleOf", float() if part > 0:
            return _FRACTION + round(abs(math.log10(part))) // 5
        case "", int() | LongInteger():
            if _digits(part) > MOST_DIGITS:
                raise TooHeavy(f"must have numbers of at most {MOST_DIGITS} digits")
            return values(part)
        case "", _:
            return 1
        case _ if name in _PLAIN:
            return values(part)
        case _:
            return 0


class _Counter:
    """Adds up what the members of a schema count as; `one` says it for each, and for each value by the name ""."""

    def __init__(self, root: Any, one: Callable[[str, Any], int]) -> None:
        self._root: Any = root
        self._one: Callable[[str, Any], int] = one
        self._known: dict[tuple[str, bool], int] = {}

    def count(self, schema: Any, inside: tuple[str, ...], *, told: bool = True) -> int:
        """`inside` holds the references that are being written out. What of `anyOf` and `oneOf` does not fit is
        looked at once more, to tell why (`told`): at each level of several."""
        total = self._one("", schema)
        if isinstance(schema, dict):
            for name, part in cast("dict[str, Any]", schema).items():
                total += self._one(name, part) + self._member(name, part, inside, told)
        elif isinstance(schema, list):
            total += sum(self.count(part, inside, told=told) for part in cast("list[Any]", schema))
        if total > MOST_PARTS:
            raise TooHeavy(f"must have at most {MOST_PARTS} parts, its references written out")
        return total

    def _member(self, name: str, part: Any, inside: tuple[str, ...], told: bool) -> int:
        if name in _DYNAMIC:
            raise TooHeavy(f"must not use {name}")
        if name == "$ref" and isinstance(part, str):
            return self._reference(part, inside, told)
        if name in _PLAIN:
            _check_digits(part)
            return 0
        if name in _NAMED and isinstance(part, dict):
            part = list(cast("dict[str, Any]", part).values())
        total = self.count(part, inside, told=told)
        if told and name in ("anyOf", "oneOf"):
            return total + self.count(part, inside, told=False)
        return total * _IF if name == "if" else total

    def _reference(self, pointer: str, inside: tuple[str, ...], told: bool) -> int:
        if pointer in inside or pointer in ("#", "#/"):
            raise TooHeavy(f"must not refer to itself, as {pointer} does")
        if (pointer, told) not in self._known:
            self._known[pointer, told] = self.count(self._target(pointer), (*inside, pointer), told=told)
        return self._known[pointer, told]

    def _target(self, pointer: str) -> Any:
        if not pointer.startswith("#/"):
            raise TooHeavy(f"must refer with JSON pointers into itself (#/…), not with {pointer[:100]}")
        target: Any = self._root
        for token in unquote(pointer[2:]).split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(name) if isinstance(target, list) else name]
            except (KeyError, IndexError, ValueError, TypeError):
                raise TooHeavy(f"refers to {pointer[:100]}, which is not in it") from None
        return target


def _check_digits(plain: Any) -> None:
    if isinstance(plain, (dict, list)):
        members = cast("dict[str, Any]", plain).values() if isinstance(plain, dict) else cast("list[Any]", plain)
        for part in members:
            _check_digits(part)
    elif _digits(plain) > MOST_DIGITS:
        raise TooHeavy(f"must have numbers of at most {MOST_DIGITS} digits")
