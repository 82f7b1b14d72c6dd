"""The error tree."""

from __future__ import annotations

import copy
import pickle

import pytest

from eventstore.domain import errors
from eventstore.domain.errors import FieldError, InvalidRequest, InvalidSnapshot, LaybyError, leaves


def test_every_leaf_has_a_slug_of_its_own_and_a_title():
    slugs = [leaf.slug for leaf in leaves()]
    assert len(slugs) == len(set(slugs))
    assert all(leaf.title for leaf in leaves())


def test_a_class_is_named_as_its_slug():
    for leaf in leaves():
        assert leaf.__name__ == "".join(word.capitalize() for word in leaf.slug.split("-"))


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = [line.split("── ")[1].split()[0] for line in (errors.__doc__ or "").splitlines() if "── " in line]
    assert sorted(drawn) == sorted(kind.__name__ for kind in _below(LaybyError))


def _below(kind: type[LaybyError]) -> list[type[LaybyError]]:
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [found for child in children for found in (child, *_below(child))]


def test_an_error_has_its_detail_and_its_members():
    error = errors.VersionMismatch("the session is at 5", current_seq=5)
    assert (str(error), error.detail, error.members) == (
        "the session is at 5",
        "the session is at 5",
        {"current_seq": 5},
    )


@pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize(
    "error", [InvalidRequest.header("If-Match", "must be a quoted seq"), errors.CallExpired("late", call={})]
)
def test_an_error_survives_a_copy(twin, error):
    again = twin(error)
    assert type(again) is type(error)
    assert (again.detail, again.members) == (error.detail, error.members)


@pytest.mark.parametrize(
    ("error", "members", "detail"),
    [
        (InvalidRequest.body("/0/type", "is required"), {"pointer": "/0/type"}, "/0/type: is required"),
        (InvalidRequest.body("", "must be an object"), {"pointer": ""}, "the body: must be an object"),
        (InvalidRequest.parameter("from", "must be a seq"), {"parameter": "from"}, "parameter from: must be a seq"),
        (InvalidRequest.header("If-Match", "is garbled"), {"header": "If-Match"}, "header If-Match: is garbled"),
    ],
)
def test_a_field_error_names_its_place(error, members, detail):
    assert error.members["errors"] == [{**members, "message": detail.split(": ")[1]}]
    assert error.detail == detail


def test_what_cannot_be_read_has_no_place():
    error = InvalidRequest.unreadable("the body is no JSON")
    assert error.members == {"errors": []}
    assert error.detail == "the body is no JSON"


def test_all_findings_at_once():
    found = [FieldError("is required", pointer="/version"), FieldError("must be an object", pointer="/run_context")]
    error = InvalidSnapshot.of(found)
    assert error.errors == found
    assert error.detail == "/version: is required; /run_context: must be an object"


@pytest.mark.parametrize("places", [{}, {"pointer": "/a", "header": "A"}, {"parameter": "a", "header": "A"}])
def test_a_field_error_has_exactly_one_place(places):
    with pytest.raises(ValueError, match="exactly one"):
        FieldError("is wrong", **places)


def test_a_fault_of_ours_says_nothing_of_its_cause():
    assert "Layby-Request-Id" in errors.InternalError().detail
