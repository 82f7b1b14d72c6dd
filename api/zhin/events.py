"""Stored events in the words of this mount: `{type, data, timestamp}`, with `data` in camelCase where Layby knows
what the type means; data of any other type is its publisher's, and untouched."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from eventstore.domain import field_aliases
from eventstore.domain.events import ASKS, RESERVED, SESSION_ENDS, STEPS, TURN_ENDS, Event, parse_line
from eventstore.domain.values import json_text

TOKEN_PREFIX: Final = "zhin:"
_OWN_OF_PUBLISHERS: Final = frozenset(
    {
        "turn.started",
        "message.appended",
        "message.completed",
        "reasoning.appended",
        "actions.requested",
        "action.result",
        "subagent.called",
        "subagent.completed",
    }
)
UNDERSTOOD: Final = RESERVED | ASKS | TURN_ENDS | SESSION_ENDS | STEPS | _OWN_OF_PUBLISHERS
_TOKEN_BEARERS: Final = frozenset({"session.started", "session.waiting", "message.received"})
_NAMES: Final = {
    "interrupt_id": "requestId",
    "pending_interrupt_ids": "pendingRequestIds",
    "tool_args": "args",
}


def translate(line: bytes) -> bytes:
    """A stored line as a line of this mount, with its line feed."""
    event = parse_line(line)
    kind, data = _words(event) if event.type in UNDERSTOOD else (event.type, event.data)
    return json_text.dumps({"type": kind, "data": data, "timestamp": event.time}).encode() + b"\n"


def _words(event: Event) -> tuple[str, dict[str, Any]]:
    """Type and data; what ended without a person is shown as an input that was not approved."""
    data = _camel(event.data)
    match event.type:
        case "input.expired":
            return _unanswered(data, authorization=data.get("kind") == "authorization")
        case "input.completed" if event.data["action"] == "cancel":
            return _unanswered(data, authorization=False)
        case "authorization.completed" if event.data.get("reason"):
            return _unanswered(data, authorization=True)
        case "input.completed":
            data |= {"approved": _approved(event.data["decision"]), "decision": _camel(event.data["decision"])}
        case "input.requested" if "message" in data:
            data["prompt"] = data.pop("message")
        case bearer if bearer in _TOKEN_BEARERS:
            data["continuationToken"] = TOKEN_PREFIX + data["continuationToken"]
        case _:
            pass
    return event.type, data


def _unanswered(data: dict[str, Any], *, authorization: bool) -> tuple[str, dict[str, Any]]:
    named = {"requestId": data["requestId"]}
    if authorization:
        return "authorization.completed", {**named, "success": False}
    return "input.completed", {**named, "approved": False}


def _approved(decision: dict[str, Any]) -> bool:
    """An answer counts as a yes, unless it is the one that says no."""
    return decision["action"] == "approve" or (decision["action"] == "respond" and decision["response"] is not False)


def _camel(data: dict[str, Any]) -> dict[str, Any]:
    """The fields under the names of this mount; what they hold is left as it is. A name that is taken stays as sent."""
    return {name if (ours := _name(name)) in data else ours: value for name, value in data.items()}


@lru_cache(maxsize=1024)
def _name(name: str) -> str:
    return _NAMES.get(name) or (name if name.startswith("_") else field_aliases.camel(name))
