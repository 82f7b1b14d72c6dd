"""The `data` of the events that the service writes by itself, or completes."""

from __future__ import annotations

from api.http.json_schema import (
    Node,
    answer,
    any_json,
    any_object,
    flag,
    integer,
    many,
    nullable,
    ref,
    text,
    time,
    words,
)
from eventstore.domain.rules.decisions import ACTIONS

STORED_DATA = {
    "session.started": "SessionStartedData",
    "session.waiting": "SessionWaitingData",
    "message.received": "MessageReceivedData",
    "input.requested": "InputRequestedData",
    "input.completed": "InputCompletedData",
    "input.expired": "InputExpiredData",
    "input.refused": "InputRefusedData",
    "authorization.completed": "AuthorizationCompletedData",
    "action.claimed": "ActionClaimedData",
    "action.released": "ActionAttemptData",
    "action.lapsed": "ActionAttemptData",
    "action.settled": "ActionSettledData",
}
"""Type of event to schema of its data. `step.*` and `action.result` may be a publisher's, of any shape."""

TOKEN = text("The newest token: a message must bring it.")


def data_schemas() -> dict[str, Node]:
    return {**_session_data(), **_call_data(), **_action_data()}


def _session_data() -> dict[str, Node]:
    return {
        "SessionStartedData": answer(
            {
                "agent": nullable(text()),
                "thread_id": text(),
                "run_id": text(),
                "steps": words("turn", "explicit"),
                "metadata": any_object(),
                "continuation_token": TOKEN,
            }
        ),
        "SessionWaitingData": answer(
            {
                "parked": flag("Whether a call waits for someone."),
                "reason": words("parked", "idle"),
                "continuation_token": TOKEN,
                "pending_interrupt_ids": many(text(), "In the order they were asked."),
            }
        ),
        "MessageReceivedData": answer({"text": text(), "continuation_token": TOKEN}),
        "StepData": answer(
            {"step_id": text(), "turn_id": text(), "status": words("running", "completed", "interrupted")},
            {
                "interrupt_kind": words("approval", "authorization", "unknown"),
                "interrupt_id": ref("InterruptId"),
            },
            "The data of `step.*` in a session whose `steps` is `turn`.",
        ),
    }


def _call_data() -> dict[str, Node]:
    call = {"interrupt_id": ref("InterruptId")}
    return {
        "InputRequestedData": answer(
            {
                **call,
                "tool_name": text(),
                "tool_args": any_object(),
                "expires_at": time(),
                "run_id": text(),
                "thread_id": text(),
                "kind": words("approval", "question"),
                "options": many(words(*ACTIONS)),
                "args_digest": ref("ArgsDigest"),
            },
            description="The request as it is stored: in snake_case, with every default resolved.",
        ),
        "InputCompletedData": answer({**call, "action": words(*ACTIONS, "cancel"), "decision": ref("Decision")}),
        "InputExpiredData": answer(call),
        "InputRefusedData": answer(
            {**call, "action": words(*ACTIONS), "reason": {"const": "expired"}},
            description="An attempt that came after the deadline.",
        ),
        "AuthorizationCompletedData": answer({**call, "success": flag()}, {"error": nullable(text())}),
    }


def _action_data() -> dict[str, Node]:
    attempt = {"interrupt_id": ref("InterruptId"), "attempt": integer(minimum=0)}
    result = any_json("What the tool gave back.")
    return {
        "ActionClaimedData": answer({**attempt, "owner": text(), "lease_until": time()}),
        "ActionAttemptData": answer(attempt),
        "ActionResultData": answer(
            {**attempt, "result": result, "is_error": flag()},
            description="The data of an `action.result` that the service writes.",
        ),
        "ActionSettledData": answer(
            {**attempt, "outcome": words("executed", "not_executed"), "result": result, "note": text()}
        ),
    }
