"""One session as readers see it: a fold over its events, and nothing but its events.

The view keeps what the next event may change. Steps and calls are handed out as they change, to be stored one by one,
so that the work for an event does not grow with the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventstore.domain import call as calls
from eventstore.domain import session as sessions
from eventstore.domain.call import Call, Execution
from eventstore.domain.events import ASKS, Event
from eventstore.domain.session import Session
from eventstore.domain.values import timestamps

SHOWN = 100
"""How many steps, and how many calls besides the open ones, a snapshot shows."""

Shown = dict[str, Any]
"""A step or a call as it is shown."""


@dataclass(slots=True)
class SessionView:
    """The state of the fold. `steps` holds the steps that changed, by their number from 1; `calls` those calls."""

    session: Session = field(default_factory=Session)
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    steps_total: int = 0
    calls_total: int = 0
    last_step: Shown | None = None
    steps: dict[int, Shown] = field(default_factory=dict[int, Shown])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    asked: list[str] = field(default_factory=list[str])

    @property
    def seq(self) -> int:
        return self.session.seq

    def apply(self, event: Event, known: Mapping[str, Call]) -> None:
        """Take one more event in. `known` holds the calls that it may name, as they were stored."""
        if event.type == "session.started":
            self.metadata = event.data["metadata"]
        self.session.apply(event)
        self._fold_step(event)
        self._fold_call(event, known)

    def _fold_step(self, event: Event) -> None:
        if event.type == "step.started":
            self.steps_total += 1
            self._keep_step(_new_step(event))
        elif (step := self.last_step) is None:
            return
        elif event.type == "step.completed" and event.data["step_id"] == step["step_id"]:
            done = {"status": "completed", "completed_at": timestamps.text(event.time)}
            self._keep_step({**step, **done, "interrupt_kind": None, "interrupt_id": None})
        elif event.type == "step.interrupted" and event.data["step_id"] == step["step_id"]:
            why = {name: event.data.get(name) for name in ("interrupt_kind", "interrupt_id")}
            self._keep_step({**step, "status": "interrupted", **why})
        elif step["status"] == "interrupted" and self._resumed(step):
            self._keep_step({**step, "status": "running", "interrupt_kind": None, "interrupt_id": None})

    def _resumed(self, step: Shown) -> bool:
        current = self.session.step
        return current is not None and current.step_id == step["step_id"] and current.status == sessions.RUNNING

    def _keep_step(self, step: Shown) -> None:
        self.last_step = self.steps[self.steps_total] = step

    def _fold_call(self, event: Event, known: Mapping[str, Call]) -> None:
        if event.type in ASKS:
            call = calls.asked(event)
            self.calls_total += 1
            self.asked.append(call.interrupt_id)
            self.calls[call.interrupt_id] = call
        elif (name := named_call(event)) and (call := self.calls.get(name) or known.get(name)):
            self.calls[name] = calls.apply(call, event)

    def forget_changes(self) -> None:
        """What changed so far has been stored."""
        self.steps, self.calls, self.asked = {}, {}, []


def empty_view(session_id: str) -> SessionView:
    """A session before its first event."""
    return SessionView(Session(session_id))


def named_call(event: Event) -> str | None:
    """The call that an event changes, if it is of that kind."""
    if event.type not in calls.NAMES_A_CALL:
        return None
    name = event.data.get("interrupt_id")
    return name if isinstance(name, str) else None


def _new_step(event: Event) -> Shown:
    return {
        "step_id": event.data["step_id"],
        "turn_id": event.data.get("turn_id"),
        "status": "running",
        "started_at": timestamps.text(event.time),
        "completed_at": None,
        "interrupt_kind": None,
        "interrupt_id": None,
    }


def summary(view: SessionView) -> Shown:
    """The snapshot without its lists, in the order in which it is shown."""
    session = view.session
    turn = session.turn
    return {
        "session_id": session.session_id,
        "agent": session.agent,
        "thread_id": session.thread_id,
        "run_id": session.run_id,
        "status": session.status,
        "parked": session.parked,
        "seq": session.seq,
        "created_at": timestamps.text(session.created_at),
        "updated_at": timestamps.text(session.time),
        "continuation_token": session.token,
        "turn": turn and {"turn_id": turn.turn_id, "started_at": timestamps.text(turn.started_at)},
    }


def row(view: SessionView) -> Shown:
    """The session in a list of sessions."""
    session = view.session
    return {
        "session_id": session.session_id,
        "agent": session.agent,
        "thread_id": session.thread_id,
        "status": session.status,
        "parked": session.parked,
        "seq": session.seq,
        "created_at": timestamps.text(session.created_at),
        "updated_at": timestamps.text(session.time),
        "open_calls": len(session.waiting),
    }


def to_record(view: SessionView) -> dict[str, Any]:
    """What is stored of a view besides its steps and calls."""
    record = sessions.to_record(view.session)
    del record["chain"]  # the fold does not compute it
    return {
        "session": record,
        "time": view.session.time,
        "metadata": view.metadata,
        "steps_total": view.steps_total,
        "calls_total": view.calls_total,
        "last_step": view.last_step,
    }


def from_record(session_id: str, seq: int, record: dict[str, Any]) -> SessionView:
    """The view of a stored record."""
    known = {"chain": "", **record["session"]}
    return SessionView(
        sessions.from_record(session_id, seq, record["time"], known),
        record["metadata"],
        record["steps_total"],
        record["calls_total"],
        record["last_step"],
    )


def call_from_shown(shown: Shown) -> Call:
    """A call from how it is shown; what only the write side needs to know of it is left out."""
    execution = shown["execution"]
    known: dict[str, Any] = {name: shown[name] for name in shown.keys() & Call.__dataclass_fields__.keys()}
    known |= {name: timestamps.parse(shown[name]) for name in ("created_at", "expires_at", "updated_at")}
    known |= {"execution": execution and _execution(execution), "asked_seq": 0}
    return Call(**known)


def _execution(shown: Shown) -> Execution:
    until = shown["lease_until"]
    lease = None if until is None else timestamps.parse(until)
    return Execution(shown["state"], shown["attempt"], shown["owner"], lease)
