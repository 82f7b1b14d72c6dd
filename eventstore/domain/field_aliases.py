"""camelCase and older spellings of the fields that Layby understands, in the data of the events that it understands."""

from __future__ import annotations

import re
from typing import Any, cast

from eventstore.domain.errors import InvalidRequest

_TURN = ("turn_id",)
_STEP = ("step_id", "turn_id", "interrupt_kind", "interrupt_id")
_ASK = (
    "interrupt_id",
    "tool_name",
    "tool_args",
    "expires_at",
    "expires_in_ms",
    "run_id",
    "thread_id",
    "response_schema",
    "allow_edits",
    "state_snapshot",
)
_AUTHORIZATION = ("interrupt_id", "expires_at", "expires_in_ms", "auth_url", "run_id", "thread_id")

_REQUEST = {"request_id": "interrupt_id", "requestId": "interrupt_id"}
_OLDER: dict[str, dict[str, str]] = {
    "input.requested": {**_REQUEST, "args": "tool_args", "prompt": "message"},
    "authorization.required": _REQUEST,
    "step.interrupted": _REQUEST,
    "action.result": _REQUEST,
}
_KNOWN: dict[str, tuple[str, ...]] = {
    "input.requested": _ASK,
    "authorization.required": _AUTHORIZATION,
    "step.started": _STEP,
    "step.completed": _STEP,
    "step.interrupted": _STEP,
    "action.result": ("interrupt_id",),
    **dict.fromkeys(("turn.started", "turn.completed", "turn.failed", "turn.cancelled"), _TURN),
}


def camel(name: str) -> str:
    """`tool_args` -> `toolArgs`."""
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


_SPELLINGS: dict[str, dict[str, str]] = {
    kind: {**{camel(name): name for name in names if camel(name) != name}, **_OLDER.get(kind, {})}
    for kind, names in _KNOWN.items()
}


def may_name(data: dict[str, Any]) -> list[str]:
    """The calls that such data may name, in any spelling; nothing is checked yet."""
    snapshot = _member(data, "state_snapshot") or _member(data, "stateSnapshot")
    values = [data.get(name) for name in ("interrupt_id", "interruptId", *_REQUEST)]
    values.append(_member(snapshot, "pending_tool_call", "interrupt_id"))
    return [name for name in values if isinstance(name, str)]


def _member(value: Any, *path: str) -> Any:
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value


def understood(kind: str, data: dict[str, Any], pointer: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The data with our names in place of other spellings, and for each renamed field how it was sent.

    Raises `InvalidRequest` where one field was given twice, in two spellings. `null` is no value.
    """
    spellings = _SPELLINGS.get(kind)
    if not spellings or spellings.keys().isdisjoint(data):
        return data, {}
    renamed, sent = dict[str, Any](), dict[str, str]()
    for name, value in data.items():
        ours = spellings.get(name, name)
        if renamed.get(ours) is not None and value is not None:
            raise InvalidRequest.body(f"{pointer}/{name}", f"is the same field as {sent.get(ours, ours)}; send one")
        if value is not None or ours not in renamed:
            renamed[ours] = value
            sent[ours] = name
    return renamed, {ours: name for ours, name in sent.items() if ours != name}
