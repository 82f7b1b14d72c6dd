"""One decision a call. The checks stand in the order that the protocol gives them."""

from __future__ import annotations

from typing import Any

from eventstore.domain import call as calls
from eventstore.domain.call import EXPIRED, PENDING, Call
from eventstore.domain.commands import ABSENT, Actor, CompleteAuthorization, DecideCall
from eventstore.domain.draft import Draft
from eventstore.domain.errors import (
    CallAlreadyDecided,
    CallExpired,
    CallNotFound,
    InvalidRequest,
    RunMismatch,
    StaleView,
)
from eventstore.domain.rules.expiry import after_closing
from eventstore.domain.values import json_text

ACTIONS = ("approve", "reject", "respond")
REFUSALS_KEPT = 10
"""How many late attempts at one call are recorded."""


def decide_call(draft: Draft, command: DecideCall, by: Actor) -> None:
    """Approve, reject or answer."""
    check_shape(command)
    call = draft.call(command.interrupt_id)
    if call.kind == "authorization":
        raise CallNotFound(
            f"{call.interrupt_id} is an authorization; complete it with POST …/authorizations/…/complete"
        )
    _check_offer(call, command)
    _check_run(call, command)
    if call.decision is not None:
        return _decided_before(draft, call, _same_decision(call, command, by))
    if call.status == EXPIRED:
        return refuse_late(draft, call, command.action, by)
    if command.args_digest not in (None, call.args_digest):
        raise StaleView(f"the call's args_digest is {call.args_digest}; look at its arguments again, then decide")
    known = {"note": command.note, "edited_args": command.edited_args, "response": _response(command)}
    decision = calls.new_decision(command.action, by.name, draft.context.now, **known)
    data = {"interrupt_id": call.interrupt_id, "action": command.action, "decision": decision}
    _close(draft, call, "input.completed", data, by)
    return None


def complete_authorization(draft: Draft, command: CompleteAuthorization, by: Actor) -> None:
    """The same for a call of kind authorization: granted or refused elsewhere, told here."""
    call = draft.call(command.interrupt_id)
    if call.kind != "authorization":
        raise CallNotFound(f"{call.interrupt_id} is no authorization; decide it with POST …/calls/…/decision")
    action = "approve" if command.success else "reject"
    if call.decision is not None:
        same = call.decision["action"] == action and _same_actor(call, by)  # the error, like a note, does not count
        return _decided_before(draft, call, same)
    if call.status == EXPIRED:
        return refuse_late(draft, call, action, by)
    data = {"interrupt_id": call.interrupt_id, "success": command.success, "error": command.error}
    _close(draft, call, "authorization.completed", data, by)
    return None


def _close(draft: Draft, call: Call, kind: str, data: dict[str, Any], by: Actor) -> None:
    event = draft.emit(kind, data, by)
    after_closing(draft)
    draft.result = {"outcome": "applied", "seq": event.seq, "call": draft.shown(call)}


def _response(command: DecideCall) -> Any:
    return None if command.response is ABSENT else command.response


def check_shape(command: DecideCall) -> None:
    """Fields that do not go together, whatever the call. Raises `InvalidRequest`."""
    if command.action not in ACTIONS:
        raise InvalidRequest.body("/action", f"must be one of {', '.join(ACTIONS)}")
    if command.edited_args is not None and command.action != "approve":
        raise InvalidRequest.body("/edited_args", "goes with approve alone")
    if command.action == "respond" and command.response is ABSENT:
        raise InvalidRequest.body("/response", "is required with respond (null is an answer too)")
    if command.action != "respond" and command.response is not ABSENT:
        raise InvalidRequest.body("/response", "goes with respond alone")


def _check_offer(call: Call, command: DecideCall) -> None:
    if command.action not in call.options:
        raise InvalidRequest.body("/action", f"was not offered; this call takes {', '.join(call.options)}")
    if command.edited_args is not None and not call.allow_edits:
        raise InvalidRequest.body("/edited_args", "this call does not allow edits")
    if command.edited_args is not None and not isinstance(command.edited_args, dict):
        raise InvalidRequest.body("/edited_args", "must be an object")
    if command.action == "respond" and call.response_schema is not None:
        errors = command.checked.errors(call.response_schema, command.response, "/response")
        if errors:
            raise InvalidRequest.of(errors)


def _check_run(call: Call, command: DecideCall) -> None:
    for name, given, known in (
        ("run_id", command.run_id, call.run_id),
        ("thread_id", command.thread_id, call.thread_id),
    ):
        if given not in (None, known):
            raise RunMismatch(f"the call belongs to {name} {known}, not {given}")


def _same_decision(call: Call, command: DecideCall, by: Actor) -> bool:
    decided = call.decision or {}
    return (
        decided["action"] == command.action
        and _same_actor(call, by)
        and json_text.same(decided["edited_args"], command.edited_args)
        and json_text.same(decided["response"], _response(command))
    )


def _same_actor(call: Call, by: Actor) -> bool:
    return call.decision is not None and (call.decision["by"], call.decided_via) == (by.name, by.via)


def _decided_before(draft: Draft, call: Call, same: bool) -> None:
    if not same:
        decided = call.decision or {}
        raise CallAlreadyDecided(
            f"{decided['by']} decided {call.interrupt_id} at {decided['at']}: {decided['action']}",
            call=draft.shown(call),
        )
    draft.result = {"outcome": "duplicate", "seq": call.decided_seq, "call": draft.shown(call)}


def refuse_late(draft: Draft, call: Call, action: str, by: Actor) -> None:
    """Too late: the answer says so for ever, and the attempt leaves its trace while the session lives."""
    assert call.status != PENDING
    if not draft.session.ended and call.refusals < REFUSALS_KEPT:
        data = {"interrupt_id": call.interrupt_id, "action": action, "reason": "expired"}
        draft.emit("input.refused", data, by)
    shown = draft.shown(call)
    draft.error = CallExpired(f"{call.interrupt_id} expired at {shown['expires_at']}, undecided", call=shown)
