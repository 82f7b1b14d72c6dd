"""A schema must not be able to stop the server: its work is bounded when it is asked, and again when it is used."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

from eventstore.domain.schemas import pattern_cost, response_schema, schema_cost
from eventstore.domain.schemas.response_schema import Unfit
from eventstore.domain.values.json_text import LongInteger

LEAF = {"type": "string"}


TOO_LARGE = "is too large to be checked against the schema of this call"
TOO_LONG = "is too long to be checked against the patterns of this call"
EXPLODING = "(a|b)*a(a|b){500}c"
"""Each text of a and b finds it in half a thousand states at once, and in other ones at each character."""


def said(schema: Any, answer: Any) -> list[str]:
    return [error.message for error in response_schema.errors(schema, answer, "/response")]


def nest(levels: int, around: Callable[[Any], Any], inner: Any = True) -> Any:
    for _ in range(levels):
        inner = around(inner)
    return inner


def fan(levels: int) -> dict[str, Any]:
    """Each definition refers to the next one twice: small to write, huge written out."""
    names = [f"d{level}" for level in range(levels)]
    twice = {name: {"anyOf": [{"$ref": f"#/$defs/{following}"}] * 2} for name, following in itertools.pairwise(names)}
    return {"$defs": {**twice, names[-1]: LEAF}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["x"]}]}, "refer to itself"),
        ({"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "refer to itself"),
        ({"properties": {"enum": {"properties": {"a": {"$ref": "#/properties/enum"}}}}}, "refer to itself"),
        ({"$dynamicRef": "#x"}, "$dynamicRef"),
        ({"$ref": "#name"}, "JSON pointers"),
        ({"$ref": "http://127.0.0.1:1/x"}, "JSON pointers"),
        ({"$ref": "#/$defs/nowhere"}, "not in it"),
        ({"enum": list(range(10_000))}, "at most"),
        (fan(20), "at most"),
        ({"anyOf": [{"pattern": "x" * 100}] * 60}, "characters together"),
        ({"patternProperties": {"x" * 6_000: True}}, "characters together"),
        ({"anyOf": [{"pattern": r"\pL{100}" + str(n)} for n in range(200)]}, "too large"),
        ({"patternProperties": {r"\pL{9000}": True}}, "too large"),
        (nest(12, lambda s: {"unevaluatedProperties": LEAF, "if": s, "then": {}}), "at most"),
        (nest(12, lambda s: {"unevaluatedProperties": LEAF, "oneOf": [{"if": s, "then": {}}]}), "at most"),
        (nest(90, lambda s: {"anyOf": [s]}), "at most"),
        (nest(90, lambda s: {"oneOf": [s]}), "at most"),
        ({"maximum": 10**1_000}, "numbers of at most 1000 digits"),
        ({"maximum": LongInteger("9" * 4_301)}, "numbers of at most 1000 digits"),
        ({"properties": {"a": {"const": LongInteger("-" + "9" * 4_301)}}}, "numbers of at most 1000 digits"),
        ({"enum": [{"a": [10**2_000]}]}, "numbers of at most 1000 digits"),
    ],
)
def test_a_schema_whose_work_is_not_bounded_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(Unfit, match=re.escape(said)):
        response_schema.check(schema)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        fan(5),
        {"properties": {"$ref": LEAF}, "enum": [{"$ref": "#"}]},
        {"$defs": {"a/b": {"x~y": LEAF}}, "$ref": "#/$defs/a~1b/x~0y"},
        {"$defs": {"a": LEAF}, "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}}},
        {"properties": {f"p{n}": {"pattern": r"^[^/]{1,255}$"} for n in range(5)}},
        {"properties": {"pattern": LEAF, "patternProperties": LEAF}},
        nest(5, lambda s: {"type": "object", "properties": {"a": s}, "unevaluatedProperties": False}),
        nest(8, lambda s: {"if": {"const": 1}, "then": True, "else": s}),
        nest(8, lambda s: {"anyOf": [s, {"type": "null"}]}),
        {"properties": {f"price{n}": {"type": "number", "multipleOf": 0.01} for n in range(20)}},
    ],
)
def test_ordinary_schemas_are_taken(schema: Any) -> None:
    response_schema.check(schema)


def test_references_count_as_often_as_they_are_used() -> None:
    alone = schema_cost.parts({"$defs": {"a": LEAF}})
    assert schema_cost.parts({"$defs": {"a": LEAF}, "items": {"$ref": "#/$defs/a"}}) > alone + 2


def test_an_answer_too_large_for_its_schema_is_refused_unchecked() -> None:
    schema = {"patternProperties": {f"^x{n}": {} for n in range(1_000)}}
    response_schema.check(schema)
    (error,) = response_schema.errors(schema, {f"k{n}": 0 for n in range(20_000)}, "/response")
    assert (error.pointer, error.message) == ("/response", TOO_LARGE)


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"uniqueItems": True}, [{"a": n} for n in range(60_000)]),
        ({"uniqueItems": True}, list(range(140_000))),
        ({"uniqueItems": True}, [10**30 + n for n in range(2_000)]),
        ({"items": {"uniqueItems": True}}, [[[2**63 + n] for n in range(2_000)]]),
        ({"uniqueItems": True}, [{"a": LongInteger("9" * 5_000 + str(n))} for n in range(10)]),
        ({"items": {"multipleOf": 1e-300}}, [1e300] * 10_000),
        ({"items": {"multipleOf": 0.1}}, [10**4_200 + n for n in range(200)]),
        ({"items": {"anyOf": [{"type": "string"}] * 10}}, [{"a": n} for n in range(20_000)]),
    ],
)
def test_what_costs_more_counts_more(schema: Any, answer: Any) -> None:
    response_schema.check(schema)
    assert said(schema, answer) == [TOO_LARGE]


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"uniqueItems": True}, [{"a": n} for n in range(5_000)]),
        ({"uniqueItems": True}, [f"https://example.com/{n}" for n in range(5_000)]),
        ({"uniqueItems": True}, [10**30 + n for n in range(100)]),
        ({"items": {"multipleOf": 0.01}}, [12.25] * 2_000),
        ({"type": "integer"}, LongInteger("9" * 5_000)),
    ],
)
def test_ordinary_answers_are_checked(schema: Any, answer: Any) -> None:
    response_schema.check(schema)
    assert said(schema, answer) == []


def test_a_large_answer_that_does_not_fit_is_not_told_error_by_error() -> None:
    schema = {"items": {"type": "string"}}
    assert len(said(schema, [0] * 100)) == 20
    assert said(schema, [0] * 20_000) == ["does not fit the schema of this call, and is too large to be told where"]
    assert said(schema, [""] * 20_000) == []


def test_a_long_text_is_several_values() -> None:
    schema = {"anyOf": [{"minLength": n} for n in range(200)]}
    for answer in ("ab" * 200_000, {"ab" * 200_000: 0}):
        assert said(schema, answer) == [TOO_LARGE]
    assert said(schema, "ab" * 100 + "c") == []


# Patterns


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"pattern": EXPLODING}, "ab" * 15_000),
        ({"pattern": EXPLODING.replace("a|b", "[ab]").replace("500", "2000")}, "ab" * 15_000),
        ({"items": {"pattern": EXPLODING}}, ["ab" * 10] * 1_500),
        ({"patternProperties": {EXPLODING: True}}, {f"{n:030}": 0 for n in range(1_000)}),
        ({"$defs": {"a": {"pattern": EXPLODING}}, "allOf": [{"$ref": "#/$defs/a"}] * 100}, "ab" * 200),
        ({"pattern": EXPLODING, "propertyNames": {"pattern": r"^\w+$"}}, "ab" * 15_000),
        ({"pattern": "(?x) # [ \n" + EXPLODING + " #]"}, "ab" * 15_000),
        ({"pattern": r"\[" + EXPLODING + r"\]"}, "ab" * 15_000),
        ({"pattern": r"[\]]*" + EXPLODING + "[a]"}, "ab" * 15_000),
    ],
)
def test_a_text_too_long_for_a_pattern_is_refused_unchecked(schema: Any, answer: Any) -> None:
    response_schema.check(schema)
    (error,) = response_schema.errors(schema, answer, "/response")
    assert (error.pointer, error.message) == ("/response", TOO_LONG)


E_MAIL = r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$"
UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        (r"^\w+$", "a" * 10_000),
        (r"^[^/]{1,255}$", "é" * 255),
        (r"^.{1,2000}$", "b" * 2_000),
        (r"^\d{4}-\d\d-\d\d$", "2026-11-29"),
        (E_MAIL, "anna@example.com"),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "anna@example.com"),
        (UUID, "123e4567-e89b-12d3-a456-426614174000"),
        (r"^[\p{L} .,-]{1,200}$", "Ünal, Ångström-Łuk. " * 10),
        (r"^\p{Lu}\p{Ll}+( \p{Lu}\p{Ll}+)*$", "Anna Maria"),
        (r"^(https?)://[^\s/$.?#].[^\s]*$", "https://example.com/" + "x" * 2_000),
        (r"\bapproved\b", "it is approved " * 500),
    ],
)
def test_ordinary_patterns_are_run_over_ordinary_answers(pattern: str, fits: str) -> None:
    schema = {"properties": {"it": {"pattern": pattern}, "why": LEAF}}
    response_schema.check(schema)
    assert said(schema, {"it": fits, "why": "words " * 1_000}) == []
    (error,) = response_schema.errors(schema, {"it": "no\n/", "why": "words " * 1_000}, "/response")
    assert (error.pointer, "does not match" in error.message) == ("/response/it", True)


def test_a_pattern_that_could_take_long_is_run_over_short_text() -> None:
    assert said({"pattern": EXPLODING}, "ab" * 200 + "a" * 501 + "c") == []
    assert len(said({"pattern": EXPLODING}, "ab" * 500)) == 1


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        (r"^\w+[^\]/]{1,255}.\.$", "^a+a{1,255}aa$"),
        (r"\pL\p{Lu}\u{1f600}\u00e9\x41", "aaaaa"),
        (r"(?x)[a] # [", r"(?x)[a] # ["),
    ],
)
def test_a_class_is_one_state(pattern: str, plain: str) -> None:
    assert pattern_cost.thinned(pattern) == plain


def test_what_a_schema_costs_to_compile_is_told() -> None:
    plain, small, large = ({"pattern": pattern} for pattern in ("x", "^x$", r"^[\p{L} .,-]{1,200}$"))
    assert response_schema.check(True) < response_schema.check(plain) == response_schema.check(small) < 20_000
    assert response_schema.check(large) > pattern_cost.COMPILED_BYTES


def test_a_stored_schema_that_would_not_be_taken_today_fits_no_answer() -> None:
    for schema in ({"pattern": "x" * 6_000}, {"maximum": 10**4_000}, {"enum": list(range(6_000))}):
        (error,) = response_schema.errors(schema, "x", "/response")
        assert (error.pointer, "cannot be checked" in error.message) == ("/response", True)
