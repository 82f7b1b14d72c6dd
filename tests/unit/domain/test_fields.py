"""What is wrong with a field is told in words that mean something to whoever sent it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eventstore.domain import state_snapshot
from eventstore.domain.errors import InvalidSnapshot
from eventstore.domain.values.field_types import Instant, Name, field_errors
from eventstore.domain.values.json_text import LongInteger


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    text: str = Field("x", min_length=1)
    name: Name = Field("x", min_length=1)
    list_: list[str] = Field(["x"], min_length=1, alias="list")
    number: int = Field(5, ge=1, le=9)
    word: Literal["yes", "no"] = "yes"
    two: Literal[2] = 2
    time: Instant = "2026-11-29T12:00:00.123Z"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("text", "", "must not be empty"),
        ("name", "", "must not be empty"),
        ("name", "x" * 201, "must be at most 200 characters"),
        ("list", [], "must not be empty"),
        ("list", {}, "must be an array"),
        ("number", 0, "must be at least 1"),
        ("number", 10**40, "must be at most 9"),
        ("number", LongInteger("9" * 5_000), "is out of range"),
        ("number", 1.0, "must be an integer"),
        ("word", "maybe", "must be 'yes' or 'no'"),
        ("two", 1, "must be 2"),
        ("time", "noon", "is not an RFC 3339 time such as 2026-11-29T12:00:00.123Z"),
        ("other{", 1, "is not a field of this request"),
    ],
)
def test_each_fault_has_plain_words(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Body.model_validate({name: value})
    (error,) = field_errors(caught.value)
    assert (error.pointer, error.message) == (f"/{name}", message)


def test_an_unknown_field_of_a_snapshot_is_none_of_a_snapshot() -> None:
    with pytest.raises(InvalidSnapshot) as caught:
        state_snapshot.parse({"version": 2, "pending_tool_call": {}, "run_context": {}, "more": 1}, "/data")
    assert [error.message for error in caught.value.errors if error.pointer == "/data/more"] == [
        "is not a field of a state_snapshot"
    ]
