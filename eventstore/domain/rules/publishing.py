"""What a publisher may append, and what the service appends with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventstore.domain import steps as finished
from eventstore.domain.commands import Actor, NewEvent, Publish
from eventstore.domain.draft import Draft
from eventstore.domain.errors import (
    IllegalTransition,
    InterruptExists,
    InvalidRequest,
    ReservedType,
    TooManyCalls,
    VersionMismatch,
)
from eventstore.domain.events import ASKS, RESERVED, SESSION_ENDS, STEPS, TURN_ENDS
from eventstore.domain.field_aliases import may_name, understood
from eventstore.domain.rules import input_requests
from eventstore.domain.rules.expiry import retire, wait
from eventstore.domain.values import timestamps
from eventstore.domain.values.field_types import NAME_MAX

MOST_OPEN = 1_000
"""Calls of one session that may wait at once: the head holds them, and `session.waiting` tells all of them."""
_NAMING = ASKS | {"action.result"}
_JUDGED = _NAMING | {"step.started"}
"""Types of events that may be judged by the record of a call, or of a step."""


def publish(draft: Draft, command: Publish, by: Actor) -> None:
    """Append a batch, as a whole or not at all."""
    if command.expected_seq is not None and command.expected_seq != draft.session.seq:
        raise VersionMismatch(
            f"version {command.expected_seq} was asked for, the session is at {draft.session.seq}",
            current_seq=draft.session.seq,
        )
    if not command.events:
        raise InvalidRequest.body("", "must hold at least one event")
    if needed := [event for event in command.events if event.type in _JUDGED]:
        draft.require(name for event in needed for name in _needed(event, draft.session.steps))
    repeated: list[dict[str, Any]] = []
    for index, event in enumerate(command.events):
        refuse_reserved(event, index, draft.session.steps)
        if draft.session.ended:
            raise _illegal(draft, index, event, "the session has ended")
        if event.type in ASKS:
            repeated += _ask(draft, event, by, index)
        else:
            _HANDLERS.get(event.type, _plain)(draft, event, by, index)
    draft.result = _answer(draft, repeated)


def _needed(event: NewEvent, steps: str) -> list[str]:
    """The records that an event may be judged by, which is of one of these types."""
    if event.type in _NAMING:
        return may_name(event.data)
    return finished.may_name(event.data) if steps == "explicit" else []


def refuse_reserved(event: NewEvent, index: int, steps: str) -> None:
    """Raises `ReservedType` for the words that only the service writes."""
    if event.type in RESERVED:
        raise ReservedType(f"{event.type} is written by the service, through the calls made for it", index=index)
    if steps == "turn" and event.type in STEPS:
        raise ReservedType(
            f"{event.type} is written by the service, one step a turn; create the session with steps=explicit"
            " to send your own",
            index=index,
        )


def _answer(draft: Draft, repeated: list[dict[str, Any]]) -> dict[str, Any]:
    written = [{"seq": event.seq, "type": event.type} for event in draft.events]
    listed = sorted([*written, *repeated], key=lambda entry: entry["seq"]) if repeated else written
    span = written or listed
    return {
        "session_id": draft.session.session_id,
        "first_seq": span[0]["seq"],
        "last_seq": span[-1]["seq"],
        "events": listed,
        "duplicate": not written,
    }


def _illegal(draft: Draft, index: int, event: NewEvent, why: str) -> IllegalTransition:
    session = draft.session
    return IllegalTransition(
        f"event {index}, {event.type}, is not possible now: {why}",
        index=index,
        state=session.status,
        allowed=allowed(draft),
    )


def allowed(draft: Draft) -> list[str]:
    """The events with an order of their own that could come next; `*` stands for every type without one."""
    session = draft.session
    if session.ended:
        return []
    turns = sorted(TURN_ENDS) if session.turn else ["turn.started"]
    steps: list[str] = []
    if session.steps == "explicit":
        steps = ["step.completed", "step.interrupted"] if session.step else ["step.started"]
    return [*turns, *steps, *sorted(ASKS), *sorted(SESSION_ENDS), "*"]


def _plain(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    draft.emit(event.type, event.data, by, event.occurred_at)


def _action_result(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    data, _ = understood(event.type, event.data, f"{event.pointer}/data")
    named = data.get("interrupt_id")
    if isinstance(named, str) and draft.exists(named):
        raise ReservedType(
            f"action.result for {named} is recorded with POST …/calls/{named}/result, since Layby governs that call",
            index=index,
        )
    _plain(draft, event, by, index)


def _ask(draft: Draft, event: NewEvent, by: Actor, index: int) -> list[dict[str, Any]]:
    """Ask for a decision, or find that it was asked already; then tell of the first time."""
    ask = input_requests.read(event, draft.session)
    draft.compiled(ask.cost)
    interrupt_id = ask.data["interrupt_id"]
    if (known := draft.find(interrupt_id)) is not None:
        same = all(getattr(known, name) == ask.data[name] for name in ("tool_name", "args_digest", "run_id"))
        if not same or (known.kind == "authorization") != (event.type == "authorization.required"):
            raise InterruptExists(
                f"{interrupt_id} was asked at seq {known.asked_seq} with another tool, arguments or run;"
                " a new request needs a new interrupt_id"
            )
        entry = {"seq": known.asked_seq, "type": event.type, "interrupt_id": interrupt_id, "status": known.status}
        return [entry] if known.asked_seq < draft.first_seq else []
    if len(draft.session.waiting) >= MOST_OPEN:
        raise TooManyCalls(
            f"{MOST_OPEN} calls wait in this session already; let some be decided, or ask in another session",
            index=index,
        )
    ask.data["expires_at"] = timestamps.text(ask.deadline(draft.context))
    draft.emit(event.type, ask.data, by, event.occurred_at)
    _interrupt_turn_step(draft, ask.data)
    wait(draft)
    return []


def _interrupt_turn_step(draft: Draft, ask: dict[str, Any]) -> None:
    session = draft.session
    if session.steps == "turn" and session.turn and session.step:
        kind = "authorization" if ask["kind"] == "authorization" else "approval"
        draft.emit("step.interrupted", _interruption(draft, kind, ask["interrupt_id"]))


def _interruption(draft: Draft, kind: str, interrupt_id: str | None = None) -> dict[str, Any]:
    step = draft.session.step
    assert step is not None
    data = {"step_id": step.step_id, "turn_id": step.turn_id, "status": "interrupted", "interrupt_kind": kind}
    return data if interrupt_id is None else {**data, "interrupt_id": interrupt_id}


def _turn_started(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    if draft.session.turn:
        raise _illegal(draft, index, event, f"turn {draft.session.turn.turn_id} is open; end it first")
    data, sent = understood(event.type, event.data, f"{event.pointer}/data")
    turn_id = _name(data, "turn_id", sent, event) or draft.context.new_id("turn_")
    draft.emit(event.type, {**data, "turn_id": turn_id}, by, event.occurred_at)
    if draft.session.steps == "turn":
        step_id = draft.context.new_id("step_")
        draft.emit("step.started", {"step_id": step_id, "turn_id": turn_id, "status": "running"})


def _turn_ended(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    session, turn = draft.session, draft.session.turn
    if turn is None:
        raise _illegal(draft, index, event, "no turn is open")
    data, sent = understood(event.type, event.data, f"{event.pointer}/data")
    named = _name(data, "turn_id", sent, event)
    if named is not None and named != turn.turn_id:
        raise _illegal(draft, index, event, f"the open turn is {turn.turn_id}, not {named}")
    step = session.step
    draft.emit(event.type, {**data, "turn_id": turn.turn_id}, by, event.occurred_at)
    _end_step(draft, event.type, step)
    if event.type != "turn.completed":
        retire(draft, session.calls_of_turn(turn.turn_id), "turn_ended")
    wait(draft)


def _end_step(draft: Draft, ending: str, step: Any) -> None:
    """The step event that an ending turn brings, if any. `step` is the one that was open before."""
    if step is None:
        return
    data = {"step_id": step.step_id, "turn_id": step.turn_id}
    interrupted = {**data, "status": "interrupted", "interrupt_kind": "unknown"}
    if draft.session.steps == "explicit":
        if step.status == "running":
            draft.emit("step.interrupted", interrupted)
    elif ending != "turn.completed":
        draft.emit("step.interrupted", interrupted)
    elif step.status == "running":
        draft.emit("step.completed", {**data, "status": "completed"})


def _step_started(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    session = draft.session
    if session.step:
        raise _illegal(draft, index, event, f"step {session.step.step_id} is open; complete or interrupt it first")
    data, sent = understood(event.type, event.data, f"{event.pointer}/data")
    step_id = _name(data, "step_id", sent, event, required=True)
    assert step_id is not None
    if (over := draft.finished(step_id)) is not None:
        raise _illegal(
            draft,
            index,
            event,
            f"step {step_id} was completed at seq {over.seq}, and is never reopened; name a new one",
        )
    turn_id = session.turn and session.turn.turn_id
    named = _name(data, "turn_id", sent, event)
    if named is not None and named != turn_id:
        raise _illegal(draft, index, event, f"the open turn is {turn_id or 'none'}, not {named}")
    known = {"step_id": step_id, "turn_id": turn_id, "status": "running"}
    draft.emit(event.type, {**data, **known}, by, event.occurred_at)


def _step_ended(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    step = draft.session.step
    if step is None:
        raise _illegal(draft, index, event, "no step is open")
    data, sent = understood(event.type, event.data, f"{event.pointer}/data")
    step_id = _name(data, "step_id", sent, event, required=True)
    if step_id != step.step_id:
        raise _illegal(draft, index, event, f"the open step is {step.step_id}, not {step_id}")
    known = {"step_id": step_id, "turn_id": step.turn_id, "status": event.type.removeprefix("step.")}
    draft.emit(event.type, {**data, **known}, by, event.occurred_at)
    if event.type == "step.completed":
        draft.finish(step.step_id)


def _session_ended(draft: Draft, event: NewEvent, by: Actor, index: int) -> None:
    session = draft.session
    if session.step and session.step.status == "running":
        draft.emit("step.interrupted", _interruption(draft, "unknown"))
    retire(draft, list(session.waiting), "session_ended")
    draft.emit(event.type, event.data, by, event.occurred_at)


def _name(
    data: dict[str, Any], name: str, sent: dict[str, str], event: NewEvent, *, required: bool = False
) -> str | None:
    """A turn or step id: 1 to 200 characters. Raises `InvalidRequest`."""
    value = data.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_MAX:
        what = "is required" if value is None else f"must be a string of 1 to {NAME_MAX} characters"
        raise InvalidRequest.body(f"{event.pointer}/data/{sent.get(name, name)}", what)
    return value


_HANDLERS: dict[str, Callable[[Draft, NewEvent, Actor, int], None]] = {
    "action.result": _action_result,
    "turn.started": _turn_started,
    **dict.fromkeys(TURN_ENDS, _turn_ended),
    "step.started": _step_started,
    "step.completed": _step_ended,
    "step.interrupted": _step_ended,
    **dict.fromkeys(SESSION_ENDS, _session_ended),
}
