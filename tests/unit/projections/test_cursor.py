"""Cursors: what a page gives, the next request may send back; nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.domain.errors import InvalidRequest
from projections.queries.page_cursor import PageCursor, decode


def encoded(text: str | bytes) -> str:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@given(st.integers(-(2**50), 2**50), st.text(st.characters(exclude_categories=["Cs"]), max_size=330))
def test_a_cursor_comes_back_as_it_was_given(score: int, member: str):
    cursor = PageCursor("inbox", score, member)
    assert decode(cursor.encode(), "inbox") == cursor


def test_no_cursor_is_the_beginning():
    assert decode(None, "inbox") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "äöü",
        "!!!!",
        "a" * 10_000,
        encoded("[]"),
        encoded("{}"),
        encoded('"inbox"'),
        encoded('["inbox",1]'),
        encoded('["inbox",1.5,""]'),
        encoded('["inbox",true,""]'),
        encoded('["inbox",NaN,""]'),
        encoded('["inbox",1e999,""]'),
        encoded(f'["inbox",{10**30},""]'),
        encoded(f'["inbox",{"9" * 3_000},""]'),
        encoded('["inbox",1,7]'),
        encoded('["inbox",1,"\\ud800"]'),
        encoded("[" * 3_000),
        encoded(b'["inbox",1,"\xff"]'),
        PageCursor("sessions", 1, "s1").encode(),
    ],
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(InvalidRequest) as refused:
        decode(text, "inbox")
    assert refused.value.members["errors"][0]["parameter"] == "cursor"
