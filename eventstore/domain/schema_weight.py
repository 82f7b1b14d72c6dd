"""How much work a JSON Schema can make.

Each part of a schema, with its references written out, meets each value of an answer at most once; so the product of
the two counts bounds the work. A schema that refers to itself has no such bound (two branches that do take a time
exponential in the depth of the answer), and neither has one whose references fan out; both are refused when asked.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import unquote

MOST_PARTS = 5_000
"""Parts of a schema, its references written out."""
MOST_WORK = 500_000
"""Parts of a schema times values of an answer: a fraction of a second."""
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
    """The values in an answer, itself included."""
    if isinstance(answer, dict):
        return 1 + sum(map(values, cast("dict[str, Any]", answer).values()))
    if isinstance(answer, list):
        return 1 + sum(map(values, cast("list[Any]", answer)))
    return 1


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
