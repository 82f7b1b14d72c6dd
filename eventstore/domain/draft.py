"""A commit in the making: the session as it would stand, and the events that lead there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from eventstore.domain import call as calls
from eventstore.domain.call import EXPIRED, PENDING, Call, ImpossibleMove
from eventstore.domain.commands import Actor
from eventstore.domain.errors import CallNotFound, InvalidSnapshot, LaybyError, TooLarge
from eventstore.domain.events import ASKS, SERVICE, Event
from eventstore.domain.session import Session
from eventstore.domain.steps import FinishedStep, record_name
from eventstore.domain.values.ids import IdSource

Record = Call | FinishedStep
Known = Record | InvalidSnapshot | None
KnownCalls = Mapping[str, Known]
"""Calls by id, and steps that are over by the names of their records: None is known not to exist; a call whose stored
document is broken is that error."""

SYSTEM = Actor(SERVICE)
MOST_DERIVED = 8_000_000
"""Characters of call ids that one command may make the service repeat."""
MOST_COMPILED = 32 * 1024 * 1024
"""Bytes of patterns that one command may make the service compile: half a second."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits that an operator sets, in milliseconds."""

    default_expiry_ms: int = 86_400_000
    max_expiry_ms: int = 30 * 86_400_000


class Context(NamedTuple):
    """What a rule may know besides the session: the time in milliseconds (never before the session's newest event),
    the limits, and fresh names.
    """

    now: int
    new_id: IdSource
    policy: Policy = Policy()


class MissingRecords(Exception):
    """A rule needs calls, or steps that are over, that nobody has loaded. The writer loads them and asks again; callers
    never see this."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = list(names)
        super().__init__(", ".join(self.names))


class Draft:
    """Collects events and applies each at once, so that the next rule sees what the last one did.

    `result` is what the caller hears, or `error` what refused it; an error may come with events (a late
    decision leaves its trace). The session and the calls handed in are never changed.
    """

    def __init__(self, session: Session, known: KnownCalls, context: Context) -> None:
        self.session: Session = session.copy()
        self.context: Context = context
        self.first_seq: int = session.seq + 1
        self.events: list[Event] = []
        self.changed: dict[str, Record] = {}
        self.result: dict[str, Any] = {}
        self.error: LaybyError | None = None
        self.renewed: bool = False
        self._known: KnownCalls = known
        self._derived: int = 0
        self._compiled: int = 0

    def emit(self, kind: str, data: dict[str, Any], by: Actor = SYSTEM, occurred_at: str | None = None) -> Event:
        """Append one event."""
        session = self.session
        event = Event(session.seq + 1, kind, self.context.now, by.name, data, by.via, occurred_at)
        self.events.append(event)
        if kind in ASKS:
            self.changed[data["interrupt_id"]] = calls.asked(event)
        elif kind in calls.NAMES_A_CALL:
            self._change_call(event)
        session.apply(event)
        return event

    def _change_call(self, event: Event) -> None:
        """A stored call that is broken, or at odds with its session, is left as it is: its events go on, so that
        nothing else is held up, and its record waits for a person."""
        interrupt_id = event.data.get("interrupt_id")
        if isinstance(interrupt_id, str) and (call := self.sound_call(interrupt_id)):
            with suppress(ImpossibleMove):
                self.changed[interrupt_id] = calls.apply(call, event)

    def sound_call(self, interrupt_id: str) -> Call | None:
        """The call, or None where there is none or its stored document is broken."""
        try:
            return self.find(interrupt_id)
        except InvalidSnapshot:
            return None

    def finished(self, step_id: str) -> FinishedStep | None:
        """The step of this id, if it was completed."""
        found = self._find(record_name(step_id))
        return found if isinstance(found, FinishedStep) else None

    def finish(self, step_id: str) -> None:
        """The event that was emitted last has completed this step."""
        self.changed[record_name(step_id)] = FinishedStep(self.session.seq)

    def require(self, names: Iterable[str]) -> None:
        """The records of these names will be needed, of calls or of steps: ask for all that are missing at once."""
        if missing := [name for name in names if name not in self.changed and name not in self._known]:
            raise MissingRecords(missing)

    def exists(self, interrupt_id: str) -> bool:
        """Whether the session has a call of this id, sound or broken."""
        try:
            return self.find(interrupt_id) is not None
        except InvalidSnapshot:
            return True

    def find(self, interrupt_id: str) -> Call | None:
        """The call, if there is one. Raises `InvalidSnapshot` if its stored document is broken."""
        found = self._find(interrupt_id)
        return found if isinstance(found, Call) else None

    def _find(self, name: str) -> Record | None:
        if name in self.changed:
            return self.changed[name]
        if name not in self._known:
            raise MissingRecords([name])
        known = self._known[name]
        if isinstance(known, InvalidSnapshot):
            raise known.with_traceback(None)  # it is raised again and again
        return known

    def call(self, interrupt_id: str) -> Call:
        """The call that a command names. Raises `CallNotFound`, and `InvalidSnapshot` for a record that no longer
        tells the truth."""
        call = self.find(interrupt_id)
        if call is None:
            raise CallNotFound(f"session {self.session.session_id} has no call {interrupt_id}")
        undecided = call.status in (PENDING, EXPIRED)
        if (call.status == PENDING) != (interrupt_id in self.session.waiting) or undecided != (call.decision is None):
            raise InvalidSnapshot(f"the stored record of {interrupt_id} says {call.status}, and its session does not")
        return call

    def grow(self, characters: int) -> None:
        """Something of this size, which nobody sent, is about to be appended. Raises `TooLarge` beyond all measure."""
        self._derived += characters
        if self._derived > MOST_DERIVED:
            raise TooLarge(
                f"{len(self.session.waiting)} calls wait in this session, and each new one is told with all of them;"
                " ask for fewer at once, or let some be decided first"
            )

    def compiled(self, cost: int) -> None:
        """A schema has cost so much to compile, in bytes of patterns. Raises `TooLarge` beyond all measure."""
        self._compiled += cost
        if self._compiled > MOST_COMPILED:
            raise TooLarge("the response_schema members of these events are too large together; send fewer at once")

    def renew(self, call: Call) -> None:
        """A longer lease: the one change that is no event."""
        self.changed[call.interrupt_id] = call
        if call.execution and call.execution.lease_until is not None:
            self.session.leases[call.interrupt_id] = call.execution.lease_until
        self.renewed = True

    def shown(self, call: Call) -> dict[str, Any]:
        """The call as the answer shows it."""
        changed = self.changed.get(call.interrupt_id)
        return calls.render(changed if isinstance(changed, Call) else call, self.session.session_id)
