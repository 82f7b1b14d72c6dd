"""The decider: given a session and its calls, when a command, then events and an answer (or a refusal).

Pure: no clock, no I/O, no randomness of its own. Everything Layby promises about a session is decided here; the
script only makes sure that nothing has changed meanwhile.
"""

from __future__ import annotations

from typing import Any

from eventstore.domain.commands import (
    ABSENT,
    Actor,
    ClaimCall,
    Command,
    CompleteAuthorization,
    CreateSession,
    DecideCall,
    ExpireDue,
    Publish,
    RecordResult,
    ReleaseCall,
    SendMessage,
    SettleCall,
)
from eventstore.domain.draft import Context, Draft, KnownCalls
from eventstore.domain.errors import ContinuationTokenStale, SessionBusy, SessionExists, SessionTerminal, TooLarge
from eventstore.domain.events import EVENT_BYTES
from eventstore.domain.rules import decisions, executions
from eventstore.domain.rules.expiry import expire_due
from eventstore.domain.rules.publishing import publish
from eventstore.domain.session import Session
from eventstore.domain.values import json_text


def decide(session: Session, calls: KnownCalls, command: Command, by: Actor, context: Context) -> Draft:
    """What the command leads to. Raises `LaybyError` when it is refused, `MissingRecords` when records must be loaded.

    What is due has taken effect before: by an `ExpireDue` of its own, at the same time.
    A `Draft` with an `error` is a refusal that leaves events behind. The session and the calls stay as they were.
    """
    draft = Draft(session, calls, context)
    if isinstance(command, Publish):  # the busiest road
        publish(draft, command, by)
        return draft
    _refuse_large(command)
    match command:
        case DecideCall():
            decisions.decide_call(draft, command, by)
        case CompleteAuthorization():
            decisions.complete_authorization(draft, command, by)
        case ClaimCall():
            executions.claim_call(draft, command, by)
        case ReleaseCall():
            executions.release_call(draft, command, by)
        case RecordResult():
            executions.record_result(draft, command, by)
        case SettleCall():
            executions.settle_call(draft, command, by)
        case SendMessage():
            _send_message(draft, command, by)
        case CreateSession():
            _create(draft, command, by)
        case ExpireDue():
            expire_due(draft)
    return draft


def _refuse_large(command: Command) -> None:
    """Raises `TooLarge` for what no event may hold. (Published events were measured, one by one, as they were sent.)"""
    name, value = _held(command)
    if value is None or value is ABSENT:
        return
    if (size := len(json_text.dumps(value).encode())) > EVENT_BYTES:
        raise TooLarge(f"the {name} has {size} bytes; an event has at most {EVENT_BYTES}")


def _held(command: Command) -> tuple[str, Any]:
    """What of a command may be of any size, and goes into an event."""
    match command:
        case SendMessage() | CreateSession():
            return "message", command.message
        case DecideCall() if command.edited_args is not None:
            return "edited_args", command.edited_args
        case DecideCall():
            return "response", command.response
        case RecordResult() | SettleCall():
            return "result", command.result
        case _:
            return "", None


def _create(draft: Draft, command: CreateSession, by: Actor) -> None:
    if draft.session.seq:
        raise SessionExists(f"session {command.session_id} exists already")
    draft.session.session_id = command.session_id
    token = draft.context.new_id("")
    data = {
        "agent": command.agent,
        "thread_id": command.session_id if command.thread_id is None else command.thread_id,
        "run_id": draft.context.new_id("run_") if command.run_id is None else command.run_id,
        "steps": command.steps,
        "metadata": command.metadata,
        "continuation_token": token,
    }
    draft.emit("session.started", data, by)
    if command.message is not None:
        _receive(draft, command.message, by)
    session = draft.session
    draft.result = {
        "session_id": session.session_id,
        "seq": session.seq,
        "status": session.status,
        "continuation_token": session.token,
    }


def _send_message(draft: Draft, command: SendMessage, by: Actor) -> None:
    session = draft.session
    if session.ended:
        raise SessionTerminal(f"the session has {session.status}; start another one")
    if command.continuation_token != session.token:
        raise ContinuationTokenStale("the session has moved on; read it again and use its continuation_token")
    if session.turn and not session.parked:
        raise SessionBusy(f"turn {session.turn.turn_id} is open; wait until it ends")
    _receive(draft, command.message, by)
    draft.result = {
        "session_id": session.session_id,
        "seq": draft.session.seq,
        "continuation_token": draft.session.token,
    }


def _receive(draft: Draft, text: str, by: Actor) -> None:
    token = draft.context.new_id("")
    draft.emit("message.received", {"text": text, "continuation_token": token}, by)
