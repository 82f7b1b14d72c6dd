"""Given what has happened, when a command comes, then these events, or this refusal.

    given(turn(), ask("c1")).when(approve("c1")).then("input.completed")
    given().when(event("turn.completed")).refused(IllegalTransition, index=0)

Whatever a test is about, every command is also held to what must always be true: the session and the calls handed
in stay as they were, the events follow on from the last one, and folding the whole log again, from its stored lines,
gives the same session and the same calls, which survive being stored themselves.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import count
from typing import Any

from eventstore.domain import call as calls
from eventstore.domain import events as log
from eventstore.domain import session as sessions
from eventstore.domain.call import Call
from eventstore.domain.commands import (
    Actor,
    ClaimCall,
    Command,
    CreateSession,
    DecideCall,
    ExpireDue,
    NewEvent,
    Publish,
)
from eventstore.domain.decider import decide
from eventstore.domain.draft import Context, Draft, MissingRecords, Policy
from eventstore.domain.errors import InvalidSnapshot, LaybyError
from eventstore.domain.events import Event
from eventstore.domain.session import Session
from eventstore.domain.values import json_text

NOON = 1_795_953_600_000
"""2026-11-29T12:00:00Z: when a story begins."""
HOUR = 3_600_000
DAY = 24 * HOUR

AGENT = Actor("svc-agent")
ANNA = Actor("anna")


def given(*history: Command | NewEvent, steps: str = "turn", policy: Policy | None = None) -> Story:
    """A session in which this has happened."""
    story = Story(policy or Policy())
    story.has(CreateSession("s1", agent="helper", run_id="run-1", steps=steps))
    for step in history:
        story.has(step)
    return story


def event(kind: str, /, **data: Any) -> NewEvent:
    return NewEvent(kind, data, pointer="/0")


def turn(turn_id: str = "t1") -> NewEvent:
    return event("turn.started", turn_id=turn_id)


def step(step_id: str = "s1") -> NewEvent:
    return event("step.started", step_id=step_id)


def ask(interrupt_id: str = "c1", /, **data: Any) -> NewEvent:
    """A request for approval of a refund."""
    known = {"interrupt_id": interrupt_id, "tool_name": "refund", "tool_args": {"amount": 100}}
    return NewEvent("input.requested", {**known, **data}, pointer="/0")


def question(interrupt_id: str = "q1", /, **data: Any) -> NewEvent:
    return event("input.requested", interrupt_id=interrupt_id, kind="question", **data)


def connect(interrupt_id: str = "a1", /, **data: Any) -> NewEvent:
    """A request for an authorization."""
    return event("authorization.required", interrupt_id=interrupt_id, **{"connection": "github", **data})


def publish(*events: NewEvent, expected: int | None = None) -> Publish:
    placed = [new._replace(pointer=f"/{index}") for index, new in enumerate(events)]
    return Publish(placed, expected)


def approve(interrupt_id: str = "c1", **more: Any) -> DecideCall:
    return DecideCall(interrupt_id, "approve", **more)


def reject(interrupt_id: str = "c1", **more: Any) -> DecideCall:
    return DecideCall(interrupt_id, "reject", **more)


def respond(response: Any, interrupt_id: str = "q1", **more: Any) -> DecideCall:
    return DecideCall(interrupt_id, "respond", response=response, **more)


def claim(interrupt_id: str = "c1", owner: str = "w1", lease_ms: int = 60_000) -> ClaimCall:
    return ClaimCall(interrupt_id, owner, lease_ms)


def refold(lines: list[bytes]) -> tuple[Session, dict[str, Call]]:
    """The session and its calls, from the stored lines alone."""
    session, known = Session("s1"), dict[str, Call]()
    for line in lines:
        happened = log.parse_line(line)
        session.apply(happened)
        interrupt_id = happened.data.get("interrupt_id")
        if happened.type in log.ASKS:
            assert isinstance(interrupt_id, str)
            known[interrupt_id] = calls.asked(happened)
        elif happened.type in calls.NAMES_A_CALL and isinstance(interrupt_id, str) and interrupt_id in known:
            known[interrupt_id] = calls.apply(known[interrupt_id], happened)
    return session, known


class Story:
    """One session, told command by command."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.now = NOON
        self.session = Session()
        self.calls: dict[str, Call | InvalidSnapshot] = {}
        self.lines: list[bytes] = []
        self.events: list[Event] = []
        self.result: dict[str, Any] = {}
        self.error: LaybyError | None = None
        self.renewed: set[str] = set()
        self.edits: dict[str, dict[str, Any]] = {}
        self.loads: list[list[str]] = []
        self._numbers = count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix or 'token_'}{next(self._numbers)}"

    def at(self, now: int) -> Story:
        """The time is now this, in milliseconds."""
        self.now = now
        return self

    def has(self, step: Command | NewEvent, by: Actor = AGENT) -> Story:
        """This happens too, before the command that the test is about."""
        self.when(step, by=by)
        assert self.error is None, f"{step} was refused: {self.error!r}"
        return self

    def when(self, command: Command | NewEvent, by: Actor = AGENT, at: int | None = None) -> Story:
        """The command that the test is about. As in the writer, what is due takes effect before it."""
        self.now = self.now if at is None else at
        while not isinstance(command, ExpireDue) and self._is_due():
            self.when(ExpireDue())
        self.events, self.result, self.error, self.loads = [], {}, None, []
        command = publish(command) if isinstance(command, NewEvent) else command
        sound = {name: call for name, call in self.calls.items() if isinstance(call, Call)}
        before = copy.deepcopy((self.session, sound, command))
        handed_in = self.session, sound, command
        try:
            draft = self._decide(command, by)
        except LaybyError as error:
            self.error = error
        else:
            self._take(draft, before[0])
        assert before == handed_in, "the session, a call or the command was changed"
        return self

    def _is_due(self) -> bool:
        due = self.session.next_due
        return due is not None and due <= self.now

    def _decide(self, command: Command, by: Actor) -> Draft:
        known: dict[str, Call | InvalidSnapshot | None] = {}
        while True:
            try:
                return decide(self.session, known, command, by, Context(self.now, self.new_id, self.policy))
            except MissingRecords as missing:
                assert missing.names
                assert known.keys().isdisjoint(missing.names)
                self.loads.append(missing.names)
                known.update({name: self.calls.get(name) for name in missing.names})

    def _take(self, draft: Draft, before: Session) -> None:
        self.session, self.calls = draft.session, {**self.calls, **draft.changed}
        self.events, self.result, self.error = draft.events, draft.result, draft.error
        if draft.renewed:
            self.renewed |= draft.changed.keys()
        for seq, happened in enumerate(draft.events, before.seq + 1):
            assert happened.seq == seq
            assert happened.time == self.now >= before.time
            assert log.parse_line(happened.line()) == happened
            assert log.line_type(happened.line()) == happened.type
        self.lines += [happened.line() for happened in draft.events]
        self._check_refold()
        self._check_records()

    def _check_refold(self) -> None:
        session, known = refold(self.lines)
        assert self._unleased(session) == self._unleased(self.session)
        sound = {name: call for name, call in self.calls.items() if isinstance(call, Call) and name not in self.edits}
        assert {name: self._unleased_call(known[name]) for name in sound} == {
            name: self._unleased_call(call) for name, call in sound.items()
        }

    def _unleased(self, session: Session) -> Session:
        """Without what a renewed lease has changed: the one thing that no event tells."""
        return replace(session, leases={i: 0 if i in self.renewed else at for i, at in session.leases.items()})

    def _unleased_call(self, call: Call) -> Call:
        if call.interrupt_id not in self.renewed or call.execution is None:
            return call
        return replace(call, execution=replace(call.execution, lease_until=None))

    def _check_records(self) -> None:
        record = json_text.loads(json_text.dumps(sessions.to_record(self.session)))
        session = self.session
        assert sessions.from_record(session.session_id, session.seq, session.time, record) == session
        for call in self.calls.values():
            if isinstance(call, Call):
                assert calls.from_record(json_text.read(json_text.dumps(calls.to_record(call)))) == call

    def damaged(self, interrupt_id: str = "c1") -> Story:
        """Somebody has broken the stored document of this call."""
        call = self.calls[interrupt_id]
        assert isinstance(call, Call)
        record = calls.to_record(call)
        record["state_snapshot"]["version"] = 1
        try:
            calls.from_record(record)
        except InvalidSnapshot as error:
            self.calls[interrupt_id] = error
        return self

    def edited(self, interrupt_id: str = "c1", **changes: Any) -> Story:
        """Somebody has changed the stored record of this call by hand; it is still well-formed."""
        self.edits[interrupt_id] = changes
        self.calls[interrupt_id] = replace(self.call(interrupt_id), **changes)
        return self

    def pass_due(self, at: int) -> Story:
        """What is due at this time takes effect, as it does before every commit."""
        return self.when(ExpireDue(), at=at)

    def call(self, interrupt_id: str = "c1") -> Call:
        found = self.calls[interrupt_id]
        assert isinstance(found, Call)
        return found

    def then(self, *expected: str | tuple[str, dict[str, Any]]) -> Story:
        """Exactly these events, each with at least these members in its data."""
        assert self.error is None, f"refused: {self.error!r}"
        return self._happened(*expected)

    def _happened(self, *expected: str | tuple[str, dict[str, Any]]) -> Story:
        named = [(kind, {}) if isinstance(kind, str) else kind for kind in expected]
        assert [happened.type for happened in self.events] == [kind for kind, _ in named]
        for happened, (_, members) in zip(self.events, named, strict=True):
            assert {name: happened.data.get(name) for name in members} == members
        return self

    def answers(self, **members: Any) -> Story:
        """The answer holds at least these."""
        assert {name: self.result.get(name) for name in members} == members
        return self

    def refused(self, error: type[LaybyError], *pointers: str, leaving: tuple[str, ...] = (), **members: Any) -> Story:
        """Refused for this reason, at these places of the body, and with no event but those it leaves behind."""
        assert self.error is not None, f"expected {error.__name__}, got {self.events}"
        assert type(self.error) is error, f"expected {error.__name__}, got {self.error!r} and {self.events}"
        if pointers:
            assert [fault.get("pointer") for fault in self.error.members["errors"]] == list(pointers)
        assert {name: self.error.members.get(name) for name in members} == members
        return self._happened(*leaving)

    def leaves(self, **expected: Any) -> Story:
        """The session is left like this."""
        shown = {
            "status": self.session.status,
            "parked": self.session.parked,
            "waiting": list(self.session.waiting),
            "turn": self.session.turn and self.session.turn.turn_id,
            "step": self.session.step and (self.session.step.step_id, self.session.step.status),
            "token": self.session.token,
        }
        assert {name: shown[name] for name in expected} == expected
        return self
