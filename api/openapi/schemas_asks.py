"""Asking for a decision: the data of `input.requested` and `authorization.required`."""

from __future__ import annotations

from api.http.json_schema import (
    Node,
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
from eventstore.domain.values.field_types import INTERRUPT_ID, INTERRUPT_ID_MAX, NAME_MAX
from eventstore.settings import DAY_MS, MAX_EXPIRY_MS

_IN_SNAPSHOT = (
    "interrupt_id",
    "tool_name",
    "tool_args",
    "expires_at",
    "expires_in_ms",
    "run_id",
    "thread_id",
)

_SPELLINGS = (
    "Each field may be spelled in camelCase too (`toolName`, `expiresAt`, `responseSchema` …). "
    "Unknown fields are kept as they are."
)


def ask_schemas() -> dict[str, Node]:
    return {
        "InterruptId": text(
            f"1 to {INTERRUPT_ID_MAX} characters, no control character, no `/`; percent-encoded in a path.",
            pattern=f"^{INTERRUPT_ID.pattern}$",
        ),
        "InputRequested": {"anyOf": [ref("InputRequest"), ref("InputRequestFromSnapshot")]},
        "InputRequest": _input_request(),
        "InputRequestFromSnapshot": _from_snapshot(),
        "AuthorizationRequired": _authorization(),
    }


def _any_of_names(*names: str) -> Node:
    """One of these must be there: they are spellings of one field."""
    return {"anyOf": [{"required": [name]} for name in names]}


def _ask(properties: dict[str, Node], description: str) -> Node:
    fields = {name: nullable(node) for name, node in properties.items()}
    return {"type": "object", "description": f"{description} {_SPELLINGS}", "properties": fields}


def _left_out(*names: str) -> dict[str, Node]:
    """Fields that the other form of the request has."""
    return {name: {"const": None} for name in names}


def _deadline() -> dict[str, Node]:
    return {
        "expires_at": time(
            f"The deadline: ahead, and not beyond the server's maximum ({MAX_EXPIRY_MS // DAY_MS} days unless set)."
        ),
        "expires_in_ms": integer(
            f"The deadline, counted from now, in place of `expires_at`. Without either, {DAY_MS // 3_600_000} hours.",
            minimum=1,
        ),
    }


def _names() -> dict[str, Node]:
    also = "Another spelling of `interrupt_id`."
    interrupt_id = ref("InterruptId")
    return {
        "interrupt_id": interrupt_id,
        "request_id": {**interrupt_id, "description": also},
        "requestId": {**interrupt_id, "description": also},
    }


def _presentation() -> dict[str, Node]:
    return {
        "kind": words("approval", "question", default="approval"),
        "message": any_json("What the person is asked."),
        "prompt": any_json("Another spelling of `message`."),
        "options": many(
            words(*ACTIONS),
            "The actions offered; `[approve, reject]` for an approval, `[respond, reject]` for a question.",
            minItems=1,
            uniqueItems=True,
        ),
        "response_schema": any_json("A JSON Schema that an answer must satisfy."),
        "allow_edits": flag("Whether an approval may change the arguments.", default=False),
        "idempotent": flag("Whether the tool may run again after a lost lease.", default=False),
    }


def _input_request() -> Node:
    properties = {
        **_names(),
        "tool_name": text("The tool that would run.", minLength=1, maxLength=NAME_MAX),
        "tool_args": any_object("The arguments it would run with."),
        "args": any_object("Another spelling of `tool_args`."),
        **_deadline(),
        "run_id": text("The session's own unless given.", maxLength=NAME_MAX),
        "thread_id": text("The session's own unless given.", maxLength=NAME_MAX),
        **_presentation(),
        **_left_out("state_snapshot", "stateSnapshot"),
    }
    question = {"required": ["kind"], "properties": {"kind": {"const": "question"}}}
    tool = [
        _any_of_names("tool_name", "toolName"),
        _any_of_names("tool_args", "toolArgs", "args"),
    ]
    named = _any_of_names("interrupt_id", "interruptId", "request_id", "requestId")
    node = _ask(properties, "Asks for a decision. A question may leave out the tool and its arguments.")
    return {**node, "allOf": [named, {"if": question, "else": {"allOf": tool}}]}


def _from_snapshot() -> Node:
    node = _ask(
        {"state_snapshot": ref("StateSnapshotRequest"), **_presentation(), **_left_out(*_IN_SNAPSHOT)},
        "Asks for a decision with a version 2 document, in place of the id, the tool and its arguments, "
        "the deadline, `run_id` and `thread_id`.",
    )
    return {**node, "allOf": [_any_of_names("state_snapshot", "stateSnapshot")]}


def _authorization() -> Node:
    node = _ask(
        {
            **_names(),
            "connection": text("What access is needed to; the call's tool_name.", minLength=1, maxLength=NAME_MAX),
            "auth_url": text("Where the person grants it."),
            "scope": {"anyOf": [text(), many(text())], "description": "What is to be granted."},
            **_deadline(),
        },
        "Asks a person to grant access; parks the session as an approval does.",
    )
    named = _any_of_names("interrupt_id", "interruptId", "request_id", "requestId")
    return {**node, "required": ["connection"], "allOf": [named]}
