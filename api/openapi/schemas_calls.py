"""Calls: how one is shown, decided, and executed."""

from __future__ import annotations

from api.http.json_schema import (
    Node,
    answer,
    any_json,
    any_object,
    described,
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
from api.openapi.schemas_sessions import NEXT_CURSOR
from api.requests.models import LEASE_MAX_MS, LEASE_MIN_MS, LEASE_MS
from eventstore.domain.call import KINDS, STATUSES
from eventstore.domain.rules.decisions import ACTIONS
from eventstore.domain.values.field_types import NAME_MAX, NOTE_MAX


def call_schemas() -> dict[str, Node]:
    return {
        "CallStatus": words(*STATUSES),
        "ArgsDigest": text(
            "SHA-256 of the canonical JSON (RFC 8785) of `{tool_name, tool_args}`.",
            pattern="^sha256:[0-9a-f]{64}$",
        ),
        "Call": _call(),
        "Decision": _decision(),
        "Execution": _execution(),
        "CallPage": answer({"calls": many(ref("Call"), "Oldest first."), "next_cursor": NEXT_CURSOR}),
        "Inbox": answer(
            {
                "calls": many(ref("Call"), "Nearest deadline first."),
                "next_cursor": NEXT_CURSOR,
                "total": integer("How many there are on all pages.", minimum=0),
            }
        ),
        "Decide": _decide(),
        "CompleteAuthorization": request({"success": flag()}, {"error": text(maxLength=NOTE_MAX)}),
        "Outcome": _outcome(),
        **_execution_requests(),
    }


def _call() -> Node:
    return answer(
        {
            "session_id": text(),
            "interrupt_id": ref("InterruptId"),
            "kind": words(*KINDS),
            "status": ref("CallStatus"),
            "run_id": text(),
            "thread_id": text(),
            "tool_name": text(),
            "tool_args": any_object("As they were asked for; edits stand in the decision."),
            "args_digest": ref("ArgsDigest"),
            "message": any_json("What the person is asked; null for nothing."),
            "options": many(words(*ACTIONS)),
            "response_schema": any_json("A JSON Schema for the answer, or null."),
            "allow_edits": flag(),
            "idempotent": flag(),
            "created_at": time(),
            "expires_at": time("Never moves."),
            "updated_at": time(),
            "decision": nullable(ref("Decision")),
            "execution": nullable(ref("Execution")),
            "result": any_json("Any JSON, or null."),
            "is_error": flag(),
        }
    )


def _decision() -> Node:
    return answer(
        {
            "action": words(*ACTIONS, "cancel"),
            "by": text(),
            "at": time(),
            "note": nullable(text()),
            "edited_args": nullable(any_object()),
            "response": any_json("Any JSON, or null."),
            "reason": nullable(text("Why the service retired it: `session_ended` or `turn_ended`.")),
        }
    )


def _execution() -> Node:
    return answer(
        {
            "state": words("unclaimed", "claimed", "indeterminate", "done"),
            "attempt": integer("The fencing token; 0 before the first claim.", minimum=0),
            "owner": nullable(text()),
            "lease_until": nullable(time()),
        }
    )


def _decide() -> Node:
    node = request(
        {"action": words(*ACTIONS, description="One of the call's `options`.")},
        {
            "note": text("For the record.", maxLength=NOTE_MAX),
            "edited_args": any_object("Only with `approve`, where the call has `allow_edits`."),
            "response": any_json("The answer, any JSON, null too. With `respond`, and only then."),
            "run_id": text("If given, it must be the call's."),
            "thread_id": text("If given, it must be the call's."),
            "args_digest": described(ref("ArgsDigest"), "If given, it must be the call's."),
        },
        null_counts=["response"],
    )
    responds = {"required": ["action"], "properties": {"action": {"const": "respond"}}}
    without: Node = {"properties": {"response": False}}
    answered = {"if": responds, "then": {"required": ["response"]}, "else": without}
    approves = {"required": ["action"], "properties": {"action": {"const": "approve"}}}
    edited = {"if": approves, "else": {"properties": {"edited_args": {"type": "null"}}}}
    return {**node, "allOf": [answered, edited]}


def _outcome() -> Node:
    return answer(
        {
            "outcome": words("applied", "duplicate"),
            "seq": integer("Of the event; of the first one if this is a duplicate.", minimum=1),
            "call": ref("Call"),
        }
    )


def _execution_requests() -> dict[str, Node]:
    attempt = integer("As the claim gave it.", minimum=1)
    result = any_json("Any JSON, null too.")
    return {
        "Claim": request(
            {"owner": text("Who runs it. The owner may claim again, to renew.", minLength=1, maxLength=NAME_MAX)},
            {"lease_ms": integer(minimum=LEASE_MIN_MS, maximum=LEASE_MAX_MS, default=LEASE_MS)},
        ),
        "Claimed": answer(
            {
                "attempt": integer("The fencing token.", minimum=1),
                "lease_until": time(),
                "tool_name": text(),
                "args": any_object("What to run with: the edited arguments, if there are any."),
                "decision": ref("Decision"),
                "call": ref("Call"),
            }
        ),
        "Release": request({"attempt": attempt}),
        "Result": request(
            {"result": result},
            {
                "attempt": described(attempt, "May be left out only while no claim was ever made."),
                "is_error": flag(default=False),
            },
        ),
        "Settle": request(
            {
                "outcome": words("executed", "not_executed"),
                "note": text("What the person found out.", maxLength=NOTE_MAX),
            },
            {"result": result},
            null_counts=["result"],
        ),
    }
