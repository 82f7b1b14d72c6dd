"""The version 2 `state_snapshot` document: every field required, no other allowed."""

from __future__ import annotations

from api.http.json_schema import Node, any_json, any_object, described, nullable, ref, text, time
from eventstore.domain.call import PENDING


def snapshot_schemas() -> dict[str, Node]:
    return {
        "StateSnapshotV2": _strict(
            {
                "version": {"type": "integer", "const": 2},
                "pending_tool_call": ref("PendingToolCall"),
                "run_context": ref("RunContext"),
            }
        ),
        "PendingToolCall": _pending(),
        "RunContext": _strict({"thread_id": text(), "run_id": text()}),
        "StateSnapshotRequest": _still_pending(),
    }


def _strict(fields: dict[str, Node]) -> Node:
    return {"type": "object", "required": list(fields), "properties": fields, "additionalProperties": False}


def _pending() -> Node:
    return _strict(
        {
            "interrupt_id": ref("InterruptId"),
            "tool_name": text(minLength=1),
            "tool_args": any_object(),
            "status": ref("CallStatus"),
            "expires_at": time(),
            "decision": nullable(described(ref("Decision"), "Null until it is decided.")),
            "result": any_json("Any JSON, null until there is one."),
            "updated_at": time(),
        }
    )


def _still_pending() -> Node:
    nothing: Node = {"type": "null"}
    undecided = {"status": {"const": PENDING}, "decision": nothing, "result": nothing}
    return {
        "description": "A document that asks for a decision: pending, not decided, without a result.",
        "allOf": [ref("StateSnapshotV2"), {"properties": {"pending_tool_call": {"properties": undecided}}}],
    }
