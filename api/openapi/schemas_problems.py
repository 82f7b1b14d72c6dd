"""Problems: one schema a slug, made from the error tree and the table of statuses."""

from __future__ import annotations

from api.http.json_schema import Node, answer, integer, many, ref, text
from api.http.problems import STATUS, TYPE_BASE, WRONG_ADDRESS
from api.requests.descriptions import problem_schema
from eventstore.domain.api_keys import SCOPES
from eventstore.domain.errors import InvalidRequest, LaybyError, leaves


def statuses(problem: type[LaybyError]) -> list[int]:
    """Those under which it may be answered."""
    return [WRONG_ADDRESS, STATUS[problem.slug]] if problem is InvalidRequest else [STATUS[problem.slug]]


def problem_schemas() -> dict[str, Node]:
    return {
        "Problem": _problem(),
        "FieldError": _field_error(),
        **{problem_schema(error): _one(error) for error in leaves()},
    }


def _problem() -> Node:
    return answer(
        {
            "type": text(format="uri"),
            "title": text("For people."),
            "status": integer(minimum=400, maximum=599),
            "detail": text("For people: how to mend the request."),
            "instance": text("The path of the request.", format="uri-reference"),
        },
        description="RFC 9457. Branch on the last word of `type`.",
    )


def _field_error() -> Node:
    places = ("pointer", "parameter", "header")
    return {
        "type": "object",
        "description": "One thing that is wrong, and where: exactly one of pointer, parameter and header.",
        "required": ["message"],
        "properties": {
            "message": text(),
            "pointer": text("RFC 6901, into the body as it was sent."),
            "parameter": text("A parameter of the query or the path."),
            "header": text("A header."),
        },
        "additionalProperties": False,
        "oneOf": [{"required": [place]} for place in places],
    }


def _members() -> dict[str, dict[str, Node]]:
    """What a problem always has beside the five members that all have."""
    index = integer("Which event of the batch, from 0.", minimum=0)
    errors = many(ref("FieldError"))
    call = ref("Call")
    return {
        "missing-scope": {"scope": text("The scope that is needed.", enum=list(SCOPES))},
        "reserved-type": {"index": index},
        "result-already-recorded": {"call": call},
        "too-many-calls": {"index": index},
        "invalid-request": {"errors": errors},
        "invalid-snapshot": {"errors": errors},
        "illegal-transition": {
            "index": index,
            "state": ref("SessionStatus"),
            "allowed": many(text(), "What would have been legal; `*` is any type without an order of its own."),
        },
        "version-mismatch": {"current_seq": integer("The version it is at.", minimum=1)},
        "call-already-decided": {"call": call},
        "call-expired": {"call": call},
        "diverged": {
            "cursor": text("Resumes at the last common point: what was not lost is not told again."),
            "sessions": many(_lost_session(), "Your sessions that are known to be hit. There may be others."),
        },
    }


def _lost_session() -> Node:
    return answer(
        {
            "session_id": text(),
            "acknowledged_seq": integer("The newest event that was acknowledged; 0: its deletion was.", minimum=0),
            "last_common_seq": integer("Nothing newer is left of that past; older events may be lost too.", minimum=0),
        }
    )


def _one(error: type[LaybyError]) -> Node:
    own = answer(
        {
            "type": {"const": TYPE_BASE + error.slug},
            "status": {"enum": statuses(error)},
            **_members().get(error.slug, {}),
        }
    )
    return {"title": error.title, "allOf": [ref("Problem"), own]}
