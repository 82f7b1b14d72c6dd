"""How much work the patterns of a JSON Schema can make.

A pattern is run as an automaton: each character of a text may meet each of its states, and a few characters with a
repetition can become any number of states. What a pattern becomes, compiled, is bounded when it is asked; the product
of that and the text, when an answer is checked. A class such as \\pL is large when it is compiled, and still one state;
so the product is taken of patterns with a plain character in place of each class.

In the worst pattern that was found, one such byte and one byte of text take about a nanosecond. So `MOST_STEPS` are
about 0.1 s. With them a pattern of 20 states, as one for an e-mail address, may be run over 100 kB;
`[^/]{1,255}x` over 6 kB. A pattern that can only go straight on, such as `^\\w+$`, `^\\d{4}-\\d\\d-\\d\\d$` or
`^[\\p{L} .,-]{1,200}$`, costs the same at any length of text and is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import jsonschema_rs

from eventstore.domain.schemas import schema_cost
from eventstore.domain.schemas.schema_cost import TooHeavy

MOST_PATTERN_TEXT = 5_000
"""Characters of all patterns of a schema: one such as \\pL stands for hundreds of ranges."""
COMPILED_BYTES = 12 * 1024 * 1024
"""What all patterns of a schema may become, compiled: a fifth of a second."""
ROOMS = (*(16 * 1024 * 4**n for n in range(5)), COMPILED_BYTES)
"""What they are tried with, so that it is known about how large they have become."""
MOST_STEPS = 100_000_000
"""Compiled bytes of a pattern, its classes plain, times bytes of text; added up over all patterns."""
_CLASS = re.compile(r"\\[pPxu]\{[^}]*\}|\\[pP].|\\x..|\\u....|\\.|\[\^?(?:\\.|[^\]\\])*\]|\.", re.DOTALL)
_VERBOSE = re.compile(r"\(\?[a-zA-Z-]*x")
"""Text may be a comment then, and what looks like a class may be none."""
_STRAIGHT = re.compile(r"\^(?:[^\\()|*+?{}^$](?:\{\d+\})?)*(?:\{\d+,\d*\}|[*+?])?\$?")
"""Each character of a text finds such a pattern, its classes plain, in one or two states."""


def find(schema: Any) -> list[str]:
    """All patterns, wherever they stand, and perhaps some text that only looks like one. Raises `TooHeavy` if there is
    too much of them."""
    found = list(_patterns(schema))
    if sum(map(len, found)) > MOST_PATTERN_TEXT:
        raise TooHeavy(f"must have patterns of at most {MOST_PATTERN_TEXT} characters together")
    return found


def too_long(schema: Any, answer: Any) -> bool:
    """Whether the patterns could take too long over an answer. Raises `TooHeavy`."""
    met = schema_cost.patterns(schema, _winding)
    text = schema_cost.characters(answer)
    if not met or not text:
        return False
    room = jsonschema_rs.RegexOptions(size_limit=max(1, MOST_STEPS // (met * text)))
    thin = {thinned(pattern) for pattern in find(schema) if _winding(pattern)}
    try:
        jsonschema_rs.Draft202012Validator({"anyOf": [{"pattern": one} for one in thin]}, pattern_options=room)
    except ValueError:
        return True
    return False


def thinned(pattern: str) -> str:
    """The pattern with a plain character in place of each class."""
    return pattern if _VERBOSE.search(pattern) else _CLASS.sub("a", pattern)


def _winding(pattern: str) -> bool:
    """Whether a text may find the pattern in many states at once."""
    return not _STRAIGHT.fullmatch(thinned(pattern))


def _patterns(schema: Any) -> Iterator[str]:
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
