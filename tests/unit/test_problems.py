"""Refusals over HTTP."""

from __future__ import annotations

import json

import pytest

from api.http import problems
from eventstore.domain import errors
from eventstore.domain.errors import InvalidRequest, leaves
from eventstore.domain.values import json_text
from eventstore.domain.values.json_text import LongInteger


def test_the_table_has_every_leaf_of_the_tree_and_no_other():
    assert {leaf.slug for leaf in leaves()} == problems.STATUS.keys()


def test_rendered_to_the_letter():
    answer = problems.render(errors.VersionMismatch("the session is at 5", current_seq=5), "/v1/sessions/s/events")
    assert answer.status_code == 412
    assert answer.headers["content-type"] == "application/problem+json"
    assert bytes(answer.body) == (
        b'{"type":"https://layby.dev/problems/version-mismatch","title":"The session is at another version",'
        b'"status":412,"detail":"the session is at 5","instance":"/v1/sessions/s/events","current_seq":5}'
    )


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequest.body("/type", "is required"), 422),
        (InvalidRequest.unreadable("the body is no JSON"), 422),
        (InvalidRequest.parameter("from", "must be a seq"), 400),
        (InvalidRequest.header("If-Match", "is garbled"), 400),
    ],
)
def test_a_wrong_body_is_422_and_a_wrong_address_400(error, status):
    answer = problems.render(error, "/")
    assert answer.status_code == json.loads(bytes(answer.body))["status"] == status


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (errors.Unauthorized("send a key"), "WWW-Authenticate", 'Bearer realm="layby"'),
        (
            errors.Unauthorized("a wrong one", refused=True),
            "WWW-Authenticate",
            'Bearer realm="layby", error="invalid_token"',
        ),
        (
            errors.MissingScope("not this", scope="decide"),
            "WWW-Authenticate",
            'Bearer realm="layby", error="insufficient_scope", scope="decide"',
        ),
        (errors.MethodNotAllowed("no PUT here", allow=["GET", "HEAD"]), "Allow", "GET, HEAD"),
        (errors.StoreUnavailable("later"), "Retry-After", "1"),
        (errors.Overloaded("later"), "Retry-After", "1"),
        (errors.StoreFull("make room"), "Retry-After", None),
        (errors.NotFound("no such route"), "Allow", None),
    ],
)
def test_headers_that_a_status_calls_for(error, header, value):
    assert problems.render(error, "/").headers.get(header) == value


def test_text_is_kept_as_it_is_written():
    assert "café 👩‍👧".encode() in bytes(problems.render(errors.NotFound("café 👩‍👧"), "/").body)


def test_members_hold_integers_of_any_size():
    call = {"tool_args": {"n": LongInteger("9" * 4_301), "m": 10**4_299}}
    answer = problems.render(errors.CallAlreadyDecided("decided", call=call), "/")
    assert json_text.loads(bytes(answer.body))["call"]["tool_args"]["n"] == LongInteger("9" * 4_301)


def test_a_detail_that_quotes_no_unicode_is_still_an_answer():
    answer = problems.render(InvalidRequest.body("/\ud800", "is not a field"), "/")
    assert json.loads(bytes(answer.body))["errors"][0]["pointer"] == "/?"
