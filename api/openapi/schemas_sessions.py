"""Sessions: what is asked for, the snapshot, and the list."""

from __future__ import annotations

from api.http.json_schema import (
    Node,
    answer,
    any_object,
    flag,
    integer,
    many,
    nullable,
    ref,
    request,
    text,
    time,
    words,
)
from api.openapi.schemas_event_data import TOKEN
from api.requests.idempotency import PREFIX
from eventstore.domain.session import STATUSES
from eventstore.domain.values.field_types import NAME_MAX, SESSION_ID
from projections.fold.session_view import SHOWN

NEXT_CURSOR = nullable(text("Opaque; null on the last page."))


def session_schemas() -> dict[str, Node]:
    return {
        "SessionId": text(f"Made as `{PREFIX}` + 26 characters unless given.", pattern=f"^{SESSION_ID.pattern}$"),
        "SessionStatus": words(*STATUSES),
        "CreateSession": _create(),
        "CreatedSession": _created(),
        "SendMessage": request({"continuation_token": text(), "message": text()}),
        "SentMessage": answer({"session_id": text(), "seq": integer(minimum=1), "continuation_token": TOKEN}),
        "SessionSnapshot": _snapshot(),
        "Turn": answer({"turn_id": text(), "started_at": time()}),
        "Step": _step(),
        "StepPage": answer({"steps": many(ref("Step"), "Oldest first."), "next_cursor": NEXT_CURSOR}),
        "SessionSummary": _summary(),
        "SessionList": answer(
            {"sessions": many(ref("SessionSummary"), "Newest activity first."), "next_cursor": NEXT_CURSOR}
        ),
    }


def _create() -> Node:
    session_id = {"allOf": [ref("SessionId"), {"not": {"enum": [".", ".."]}}]}
    return request(
        {},
        {
            "session_id": session_id,
            "agent": text("The name of the agent.", maxLength=NAME_MAX),
            "thread_id": text("The session id unless given.", maxLength=NAME_MAX),
            "run_id": text("Made as `run_` + 26 characters unless given.", maxLength=NAME_MAX),
            "steps": words("turn", "explicit", default="turn"),
            "metadata": any_object(),
            "message": text("A first message, received at once."),
        },
    )


def _created() -> Node:
    return answer(
        {
            "session_id": text(),
            "seq": integer("Of the newest event.", minimum=1),
            "status": ref("SessionStatus"),
            "continuation_token": TOKEN,
        }
    )


def _names() -> dict[str, Node]:
    return {"session_id": text(), "agent": nullable(text()), "thread_id": text()}


def _state() -> dict[str, Node]:
    return {
        "status": ref("SessionStatus"),
        "parked": flag("Whether a call waits for someone."),
        "seq": integer("The version of the session: the seq of its newest event.", minimum=1),
        "created_at": time(),
        "updated_at": time(),
    }


def _snapshot() -> Node:
    return answer(
        {
            **_names(),
            "run_id": text(),
            **_state(),
            "continuation_token": TOKEN,
            "turn": nullable(ref("Turn")),
            "steps": many(ref("Step"), f"The newest {SHOWN}, in the order they began.", maxItems=SHOWN),
            "steps_total": integer(minimum=0),
            "calls": many(ref("Call"), f"All open ones and the newest {SHOWN} others, in the order they began."),
            "calls_total": integer(minimum=0),
            "metadata": any_object(),
        }
    )


def _step() -> Node:
    return answer(
        {
            "step_id": text(),
            "turn_id": nullable(text()),
            "status": words("running", "completed", "interrupted"),
            "started_at": time(),
            "completed_at": nullable(time()),
            "interrupt_kind": nullable(text("`approval`, `authorization`, `unknown`, or a publisher's own.")),
            "interrupt_id": nullable(text()),
        }
    )


def _summary() -> Node:
    return answer({**_names(), **_state(), "open_calls": integer("How many calls wait.", minimum=0)})
