"""A schema must not be able to stop the server: its work is bounded when it is asked, and again when it is used."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from eventstore.domain import response_schema, schema_weight

LEAF = {"type": "string"}


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
    ],
)
def test_a_schema_whose_work_is_not_bounded_is_refused(schema: Any, said: str) -> None:
    assert said in (response_schema.fault(schema) or "")


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
    ],
)
def test_ordinary_schemas_are_taken(schema: Any) -> None:
    assert response_schema.fault(schema) is None


def test_references_count_as_often_as_they_are_used() -> None:
    alone = schema_weight.parts({"$defs": {"a": LEAF}})
    assert schema_weight.parts({"$defs": {"a": LEAF}, "items": {"$ref": "#/$defs/a"}}) > alone + 2


def test_an_answer_too_large_for_its_schema_is_refused_unchecked() -> None:
    schema = {"patternProperties": {f"^x{n}": {} for n in range(1_000)}}
    assert response_schema.fault(schema) is None
    (error,) = response_schema.errors(schema, {f"k{n}": 0 for n in range(20_000)}, "/response")
    assert (error.pointer, error.message) == ("/response", "is too large to be checked against the schema of this call")


def test_a_long_text_is_several_values() -> None:
    schema = {"anyOf": [{"pattern": f"^(a|b|{n})*c$"} for n in range(200)]}
    assert response_schema.fault(schema) is None
    for answer in ("ab" * 200_000, {"ab" * 200_000: 0}):
        (error,) = response_schema.errors(schema, answer, "/response")
        assert error.message == "is too large to be checked against the schema of this call"
    assert response_schema.errors(schema, "ab" * 100 + "c", "/response") == []


def test_a_stored_schema_that_would_not_be_taken_today_fits_no_answer() -> None:
    (error,) = response_schema.errors({"pattern": "x" * 6_000}, "x", "/response")
    assert (error.pointer, "cannot be checked" in error.message) == ("/response", True)
