"""One call: what was asked, what was decided, what came of it. A fold over the events that name it.

    PENDING_APPROVAL -> APPROVED_EXECUTING -> EXECUTED
    PENDING_APPROVAL -> REJECTED
    PENDING_APPROVAL -> EXPIRED

No other move exists; an event that asks for one raises `ImpossibleMove`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eventstore.domain import state_snapshot
from eventstore.domain.errors import InvalidSnapshot
from eventstore.domain.events import Event
from eventstore.domain.values import timestamps

PENDING, APPROVED, EXECUTED = "PENDING_APPROVAL", "APPROVED_EXECUTING", "EXECUTED"
REJECTED, EXPIRED = "REJECTED", "EXPIRED"
KINDS = ("approval", "question", "authorization")
STATUSES = (PENDING, APPROVED, EXECUTED, REJECTED, EXPIRED)
_MOVES = {(PENDING, APPROVED), (APPROVED, EXECUTED), (PENDING, REJECTED), (PENDING, EXPIRED)}


class ImpossibleMove(Exception):
    """The log holds an event that no rule of ours could have written."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Who runs an approved call. `valid` is the attempt whose result would be taken; none after a release."""

    state: str = "unclaimed"
    attempt: int = 0
    owner: str | None = None
    lease_until: int | None = None
    valid: int | None = 0
    released_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """The state of a call; times are in milliseconds."""

    interrupt_id: str
    kind: str
    status: str
    run_id: str
    thread_id: str
    tool_name: str
    tool_args: dict[str, Any]
    args_digest: str
    message: Any
    options: list[str]
    response_schema: Any
    allow_edits: bool
    idempotent: bool
    created_at: int
    expires_at: int
    updated_at: int
    asked_seq: int
    decision: dict[str, Any] | None = None
    decided_seq: int | None = None
    decided_via: str | None = None
    execution: Execution | None = None
    result: Any = None
    result_seq: int | None = None
    is_error: bool = False
    refusals: int = 0

    def moved(self, status: str, time: int, **changes: Any) -> Call:
        if (self.status, status) not in _MOVES:
            raise ImpossibleMove(f"{self.interrupt_id}: {self.status} -> {status}")
        return replace(self, status=status, updated_at=time, **changes)


def asked(event: Event) -> Call:
    """The call that an `input.requested` or `authorization.required` event opens."""
    data = event.data
    own = {} if data["kind"] == "authorization" else data  # there, such names are the publisher's and mean nothing
    return Call(
        interrupt_id=data["interrupt_id"],
        kind=data["kind"],
        status=PENDING,
        run_id=data["run_id"],
        thread_id=data["thread_id"],
        tool_name=data["tool_name"],
        tool_args=data["tool_args"],
        args_digest=data["args_digest"],
        message=data.get("message"),
        options=data["options"],
        response_schema=own.get("response_schema"),
        allow_edits=own.get("allow_edits", False),
        idempotent=own.get("idempotent", False),
        created_at=event.time,
        expires_at=timestamps.parse(data["expires_at"]),
        updated_at=event.time,
        asked_seq=event.seq,
    )


def apply(call: Call, event: Event) -> Call:
    """The call after one more event that names it; events that say nothing about a call leave it as it is."""
    step = _APPLY.get(event.type)
    return step(call, event) if step else call


def _completed(call: Call, event: Event) -> Call:
    decision = event.data["decision"]
    return _decided(call, event, decision, decision["action"], decision["response"])


def _authorized(call: Call, event: Event) -> Call:
    reason = event.data.get("reason")
    action = "cancel" if reason else "approve" if event.data["success"] else "reject"
    decision = new_decision(action, event.by, event.time, note=event.data.get("error"), reason=reason)
    return _decided(call, event, decision, "respond" if action == "approve" else action, None)


def new_decision(action: str, by: str, at: int, **known: Any) -> dict[str, Any]:
    """A decision with every member it is shown with."""
    empty = {"note": None, "edited_args": None, "response": None, "reason": None}
    return {"action": action, "by": by, "at": timestamps.text(at), **empty, **known}


def _decided(call: Call, event: Event, decision: dict[str, Any], action: str, result: Any) -> Call:
    said: dict[str, Any] = {"decision": decision, "decided_seq": event.seq, "decided_via": event.via}
    if action in ("reject", "cancel"):
        return call.moved(REJECTED, event.time, **said)
    approved = call.moved(APPROVED, event.time, **said)
    if action == "respond":
        return approved.moved(EXECUTED, event.time, result=result, result_seq=event.seq)
    return replace(approved, execution=Execution())


def _expired(call: Call, event: Event) -> Call:
    return call.moved(EXPIRED, event.time)


def _refused(call: Call, event: Event) -> Call:
    return replace(call, refusals=call.refusals + 1)


def _executing(call: Call, event: Event, **changes: Any) -> Call:
    if call.status != APPROVED or call.execution is None:
        raise ImpossibleMove(f"{call.interrupt_id}: {event.type} while {call.status}")
    return replace(call, execution=replace(call.execution, **changes), updated_at=event.time)


def _claimed(call: Call, event: Event) -> Call:
    attempt, until = event.data["attempt"], timestamps.parse(event.data["lease_until"])
    return _executing(
        call,
        event,
        state="claimed",
        attempt=attempt,
        valid=attempt,
        owner=event.data["owner"],
        lease_until=until,
        released_seq=None,
    )


def _released(call: Call, event: Event) -> Call:
    seq = event.seq
    return _executing(call, event, state="unclaimed", owner=None, lease_until=None, valid=None, released_seq=seq)


def _lapsed(call: Call, event: Event) -> Call:
    """The attempt stays the current one: its late result still counts, until somebody else claims or settles."""
    if call.idempotent:
        return _executing(call, event, state="unclaimed", owner=None, lease_until=None)
    return _executing(call, event, state="indeterminate")


def _settled(call: Call, event: Event) -> Call:
    if event.data["outcome"] == "not_executed":
        return _executing(call, event, state="unclaimed", owner=None, lease_until=None, valid=None)
    return _resulted(call, event)


def _resulted(call: Call, event: Event) -> Call:
    done = _executing(call, event, state="done")
    result, is_error = event.data["result"], event.data.get("is_error", False)
    return done.moved(EXECUTED, event.time, result=result, is_error=is_error, result_seq=event.seq)


_APPLY = {
    "input.completed": _completed,
    "authorization.completed": _authorized,
    "input.expired": _expired,
    "input.refused": _refused,
    "action.claimed": _claimed,
    "action.released": _released,
    "action.lapsed": _lapsed,
    "action.settled": _settled,
    "action.result": _resulted,
}
NAMES_A_CALL = frozenset(_APPLY)
"""The types of event that change a call there already."""


def render(call: Call, session_id: str) -> dict[str, Any]:
    """The call as it is shown everywhere."""
    execution = call.execution
    return {
        "session_id": session_id,
        "interrupt_id": call.interrupt_id,
        "kind": call.kind,
        "status": call.status,
        "run_id": call.run_id,
        "thread_id": call.thread_id,
        "tool_name": call.tool_name,
        "tool_args": call.tool_args,
        "args_digest": call.args_digest,
        "message": call.message,
        "options": call.options,
        "response_schema": call.response_schema,
        "allow_edits": call.allow_edits,
        "idempotent": call.idempotent,
        "created_at": timestamps.text(call.created_at),
        "expires_at": timestamps.text(call.expires_at),
        "updated_at": timestamps.text(call.updated_at),
        "decision": call.decision,
        "execution": execution and _render_execution(execution),
        "result": call.result,
        "is_error": call.is_error,
    }


def _render_execution(execution: Execution) -> dict[str, Any]:
    until = execution.lease_until
    return {
        "state": execution.state,
        "attempt": execution.attempt,
        "owner": execution.owner,
        "lease_until": None if until is None else timestamps.text(until),
    }


def snapshot_document(call: Call) -> dict[str, Any]:
    """The version 2 `state_snapshot` of a call."""
    return {
        "version": 2,
        "pending_tool_call": {
            "interrupt_id": call.interrupt_id,
            "tool_name": call.tool_name,
            "tool_args": call.tool_args,
            "status": call.status,
            "expires_at": timestamps.text(call.expires_at),
            "decision": call.decision,
            "result": call.result,
            "updated_at": timestamps.text(call.updated_at),
        },
        "run_context": {"thread_id": call.thread_id, "run_id": call.run_id},
    }


def to_record(call: Call) -> dict[str, Any]:
    """What is stored of a call: its version 2 document, and what that does not hold."""
    rest = {name: getattr(call, name) for name in _BESIDE if getattr(call, name) != _DEFAULTS.get(name, _ALWAYS)}
    if call.execution is not None:
        rest["execution"] = {name: getattr(call.execution, name) for name in Execution.__dataclass_fields__}
    return {"state_snapshot": snapshot_document(call), **rest}


def from_record(record: Any) -> Call:
    """The call of a stored record. Raises `InvalidSnapshot` if that is damaged, its document above all."""
    try:
        return _from_record(record)
    except (KeyError, TypeError, AttributeError):
        raise InvalidSnapshot.body("", "is not the record of a call") from None


def _from_record(record: dict[str, Any]) -> Call:
    snapshot = state_snapshot.parse(record["state_snapshot"], "/state_snapshot")
    document, rest = snapshot.pending_tool_call, _DEFAULTS | {name: record[name] for name in _BESIDE if name in record}
    if any(type(rest[name]) is not kind for name, kind in _TYPES.items()) or rest["kind"] not in KINDS:
        raise TypeError("a member is of another type")
    if record.get("execution") is not None:
        rest["execution"] = Execution(**record["execution"])
    return Call(
        interrupt_id=document.interrupt_id,
        status=document.status,
        run_id=snapshot.run_context.run_id,
        thread_id=snapshot.run_context.thread_id,
        tool_name=document.tool_name,
        tool_args=document.tool_args,
        expires_at=timestamps.parse(document.expires_at),
        updated_at=timestamps.parse(document.updated_at),
        decision=record["state_snapshot"]["pending_tool_call"]["decision"],
        result=document.result,
        **rest,
    )


_ALWAYS = object()
_TYPES: dict[str, type] = {
    "kind": str,
    "args_digest": str,
    "options": list,
    "allow_edits": bool,
    "idempotent": bool,
    "created_at": int,
    "asked_seq": int,
    "is_error": bool,
    "refusals": int,
}
_IN_DOCUMENT = {
    "interrupt_id",
    "status",
    "run_id",
    "thread_id",
    "tool_name",
    "tool_args",
    "expires_at",
    "updated_at",
    "decision",
    "result",
}
_BESIDE = [name for name in Call.__dataclass_fields__ if name not in _IN_DOCUMENT | {"execution"}]
_DEFAULTS: dict[str, Any] = {
    "message": None,
    "response_schema": None,
    "allow_edits": False,
    "idempotent": False,
    "decided_seq": None,
    "decided_via": None,
    "result_seq": None,
    "is_error": False,
    "refusals": 0,
}
