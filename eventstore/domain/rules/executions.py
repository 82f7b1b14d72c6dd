"""Running an approved call: one executor a fencing token (`attempt`), one result, and no guessing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eventstore.domain.call import APPROVED, EXECUTED, Call, Execution
from eventstore.domain.commands import Actor, ClaimCall, RecordResult, ReleaseCall, SettleCall
from eventstore.domain.draft import Draft
from eventstore.domain.errors import (
    AlreadyClaimed,
    Fenced,
    InvalidRequest,
    NotApproved,
    NotIndeterminate,
    OutcomeUnknown,
    ResultAlreadyRecorded,
)
from eventstore.domain.values import json_text, timestamps


def claim_call(draft: Draft, command: ClaimCall, by: Actor) -> None:
    """Hand the call to one owner, or let that owner renew its lease."""
    call, execution = _open(draft, command.interrupt_id)
    until = draft.context.now + command.lease_ms
    if execution.state == "claimed":
        if execution.owner != command.owner:
            raise AlreadyClaimed(f"{execution.owner} holds attempt {execution.attempt} until {_until(execution)}")
        draft.renew(replace(call, execution=replace(execution, lease_until=until)))
        attempt = execution.attempt
    elif execution.state == "indeterminate":
        raise OutcomeUnknown(
            f"attempt {execution.attempt} of {execution.owner} ended without a word;"
            " settle it before anyone runs it again"
        )
    else:
        attempt = execution.attempt + 1
        data = {"attempt": attempt, "owner": command.owner, "lease_until": timestamps.text(until)}
        draft.emit("action.claimed", {"interrupt_id": call.interrupt_id, **data}, by)
    draft.result = _handed_out(draft, call, attempt, until)


def _handed_out(draft: Draft, call: Call, attempt: int, until: int) -> dict[str, Any]:
    edited = call.decision["edited_args"] if call.decision else None
    return {
        "attempt": attempt,
        "lease_until": timestamps.text(until),
        "tool_name": call.tool_name,
        "args": call.tool_args if edited is None else edited,
        "decision": call.decision,
        "call": draft.shown(call),
    }


def release_call(draft: Draft, command: ReleaseCall, by: Actor) -> None:
    """Give the call back unstarted; its attempt is over."""
    call, execution = _open(draft, command.interrupt_id)
    if execution.released_seq and execution.valid is None and command.attempt == execution.attempt:
        draft.result = {"outcome": "duplicate", "seq": execution.released_seq, "call": draft.shown(call)}
        return
    if execution.attempt == 0 or command.attempt != execution.valid:
        raise Fenced(_not_current(command.attempt, execution))
    event = draft.emit("action.released", {"interrupt_id": call.interrupt_id, "attempt": command.attempt}, by)
    draft.result = {"outcome": "applied", "seq": event.seq, "call": draft.shown(call)}


def record_result(draft: Draft, command: RecordResult, by: Actor) -> None:
    """Record what the tool gave, once."""
    call = draft.call(command.interrupt_id)
    execution = _execution(call)
    if command.attempt is None and execution.attempt > 0:
        raise InvalidRequest.body("/attempt", "is required once the call has been claimed")
    attempt = 0 if command.attempt is None else command.attempt
    if call.status == EXECUTED:
        _recorded_before(draft, call, command, attempt)
        return
    if attempt != execution.valid:
        raise Fenced(_not_current(attempt, execution))
    data = {
        "interrupt_id": call.interrupt_id,
        "attempt": attempt,
        "result": command.result,
        "is_error": command.is_error,
    }
    event = draft.emit("action.result", data, by)
    draft.result = {"outcome": "applied", "seq": event.seq, "call": draft.shown(call)}


def _recorded_before(draft: Draft, call: Call, command: RecordResult, attempt: int) -> None:
    execution = _execution(call)
    if attempt != execution.attempt:
        raise Fenced(_not_current(attempt, execution))
    if not json_text.same(call.result, command.result) or call.is_error != command.is_error:
        raise ResultAlreadyRecorded(f"another result was recorded at seq {call.result_seq}", call=draft.shown(call))
    draft.result = {"outcome": "duplicate", "seq": call.result_seq, "call": draft.shown(call)}


def settle_call(draft: Draft, command: SettleCall, by: Actor) -> None:
    """A person says what became of a call whose executor vanished."""
    call = draft.call(command.interrupt_id)
    execution = call.execution
    if call.status != APPROVED or execution is None or execution.state != "indeterminate":
        state = execution.state if execution else "not approved"
        raise NotIndeterminate(f"{call.interrupt_id} is {call.status}, execution {state}; there is nothing to settle")
    data = {
        "interrupt_id": call.interrupt_id,
        "attempt": execution.attempt,
        "outcome": command.outcome,
        "result": command.result,
        "note": command.note,
    }
    event = draft.emit("action.settled", data, by)
    draft.result = {"outcome": "applied", "seq": event.seq, "call": draft.shown(call)}


def _open(draft: Draft, interrupt_id: str) -> tuple[Call, Execution]:
    """A call that could still be run."""
    call = draft.call(interrupt_id)
    execution = _execution(call)
    if call.status == EXECUTED:
        raise ResultAlreadyRecorded(f"its result was recorded at seq {call.result_seq}", call=draft.shown(call))
    return call, execution


def _execution(call: Call) -> Execution:
    """Raises `NotApproved` for a call that was never handed out: undecided, refused, or answered instead."""
    if call.execution is None or call.status not in (APPROVED, EXECUTED):
        why = "was answered instead of run" if call.status == EXECUTED else f"is {call.status}"
        raise NotApproved(f"{call.interrupt_id} {why}; only an approved call can be run")
    return call.execution


def _not_current(attempt: int, execution: Execution) -> str:
    if execution.valid is None:
        return f"attempt {attempt} is over: the last one, {execution.attempt}, was given back or settled"
    return f"attempt {attempt} is not the current one, {execution.attempt}"


def _until(execution: Execution) -> str:
    return timestamps.text(execution.lease_until or 0)
