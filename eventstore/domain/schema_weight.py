"""How much work a JSON Schema can make.

Each part of a schema, with its references written out, meets each value of an answer at most once; so the product of
the two counts bounds the work. A schema that refers to itself has no such bound (two branches that do take a time
exponential in the depth of the answer), and neither has one whose references fan out; both are refused when asked.
Patterns are compiled anew for each answer, and meet every character of it: their text and what it may become are
bounded, and a long text counts as several values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import unquote

MOST_PARTS = 5_000
"""Parts of a schema, its references written out."""
MOST_WORK = 500_000
"""Parts of a schema times values of an answer: a fraction of a second."""
MOST_PATTERN_TEXT = 5_000
"""Characters of all patterns of a schema: one such as \\pL stands for hundreds of ranges."""
COMPILED_BYTES = 8 * 1024 * 1024
"""What all patterns of a schema may become, compiled: a few characters with a repetition can become anything."""
_ONE_VALUE = 100
"""Characters of a text, or of a member's name, that count as one value."""
_PLAIN = frozenset({"const", "default", "enum", "examples", "$comment", "description", "title"})
_NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Members that hold schemas by names of the author's own, which mean nothing here."""
_DYNAMIC = ("$dynamicRef", "$recursiveRef")


class TooHeavy(ValueError):
    """The schema's work has no bound, or too large a one; the message says what to change."""


def parts(schema: Any) -> int:
    """The parts of a schema with its references written out. Raises `TooHeavy`."""
    return _Counter(schema).count(schema, ())


def values(answer: Any) -> int:
    """The values in an answer, itself included; a long text is several."""
    if isinstance(answer, dict):
        members = cast("dict[str, Any]", answer).items()
        return 1 + sum(len(name) // _ONE_VALUE + values(value) for name, value in members)
    if isinstance(answer, list):
        return 1 + sum(map(values, cast("list[Any]", answer)))
    return 1 + len(answer) // _ONE_VALUE if isinstance(answer, str) else 1


def compiled_bytes(schema: Any) -> int:
    """What each pattern of a schema may become: they share alike. Raises `TooHeavy` if there is too much of them."""
    found = list(_patterns(schema))
    if sum(map(len, found)) > MOST_PATTERN_TEXT:
        raise TooHeavy(f"must have patterns of at most {MOST_PATTERN_TEXT} characters together")
    return COMPILED_BYTES // max(1, len(found))


def _patterns(schema: Any) -> Iterator[str]:
    """All patterns, wherever they stand, and perhaps some text that only looks like one."""
    if isinstance(schema, list):
        for part in cast("list[Any]", schema):
            yield from _patterns(part)
    elif isinstance(schema, dict):
        for name, part in cast("dict[str, Any]", schema).items():
            if name == "pattern" and isinstance(part, str):
                yield part
            elif name == "patternProperties" and isinstance(part, dict):
                yield from cast("dict[str, Any]", part)
            yield from _patterns(part)


class _Counter:
    def __init__(self, root: Any) -> None:
        self._root: Any = root
        self._known: dict[str, int] = {}

    def count(self, schema: Any, inside: tuple[str, ...]) -> int:
        """`inside` holds the references that are being written out."""
        if isinstance(schema, dict):
            total = 1 + sum(self._member(name, part, inside) for name, part in cast("dict[str, Any]", schema).items())
        elif isinstance(schema, list):
            total = 1 + sum(self.count(part, inside) for part in cast("list[Any]", schema))
        else:
            total = 1
        if total > MOST_PARTS:
            raise TooHeavy(f"must have at most {MOST_PARTS} parts, its references written out")
        return total

    def _member(self, name: str, part: Any, inside: tuple[str, ...]) -> int:
        if name in _DYNAMIC:
            raise TooHeavy(f"must not use {name}")
        if name == "$ref" and isinstance(part, str):
            return self._reference(part, inside)
        if name in _NAMED and isinstance(part, dict):
            return self.count(list(cast("dict[str, Any]", part).values()), inside)
        return values(part) if name in _PLAIN else self.count(part, inside)

    def _reference(self, pointer: str, inside: tuple[str, ...]) -> int:
        if pointer in inside or pointer in ("#", "#/"):
            raise TooHeavy(f"must not refer to itself, as {pointer} does")
        if pointer not in self._known:
            self._known[pointer] = self.count(self._target(pointer), (*inside, pointer))
        return self._known[pointer]

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
