"""The write-side state of a session: what is open, not what has been. A fold over its events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, ClassVar

from eventstore.domain.events import GENESIS, Event
from eventstore.domain.values import timestamps

RUNNING, WAITING, COMPLETED, FAILED = "running", "waiting", "completed", "failed"
STATUSES = (RUNNING, WAITING, COMPLETED, FAILED)


@dataclass(frozen=True, slots=True)
class Turn:
    """The open turn."""

    turn_id: str
    started_at: int


@dataclass(frozen=True, slots=True)
class Step:
    """The open step: running, or interrupted and waiting for its calls."""

    step_id: str
    turn_id: str | None
    status: str = RUNNING


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for its decision; `expires_at` is in milliseconds."""

    kind: str
    expires_at: int
    turn_id: str | None = None
    step_id: str | None = None


@dataclass(slots=True)
class Session:
    """Everything that a command is judged by, besides the calls it names. `chain` is the hash of the newest event."""

    session_id: str = ""
    agent: str | None = None
    thread_id: str = ""
    run_id: str = ""
    steps: str = "turn"
    seq: int = 0
    time: int = 0
    created_at: int = 0
    chain: str = GENESIS
    status: str = RUNNING
    token: str = ""
    turn: Turn | None = None
    step: Step | None = None
    waiting: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    leases: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def ended(self) -> bool:
        return self.status in (COMPLETED, FAILED)

    @property
    def parked(self) -> bool:
        return bool(self.waiting)

    @property
    def next_due(self) -> int | None:
        """When the first deadline or lease passes, in milliseconds."""
        if not self.waiting and not self.leases:
            return None
        deadlines = [call.expires_at for call in self.waiting.values()]
        return min((*deadlines, *self.leases.values()))

    def copy(self) -> Session:
        copied = Session(*_all_fields(self))
        copied.waiting, copied.leases = dict(self.waiting), dict(self.leases)
        return copied

    def calls_of_turn(self, turn_id: str) -> list[str]:
        """The waiting calls that were asked in this turn, in the order they were asked."""
        return [iid for iid, call in self.waiting.items() if call.turn_id == turn_id]

    def apply(self, event: Event) -> None:
        """Take one more event in."""
        self.seq, self.time = event.seq, event.time
        if change := self._CHANGES.get(event.type):
            change(self, event)

    def _received(self) -> None:
        """Something came in: a session that waits for no decision runs."""
        if not self.waiting:
            self.status = RUNNING

    def _started(self, event: Event) -> None:
        data = event.data
        self.agent, self.thread_id, self.run_id = data["agent"], data["thread_id"], data["run_id"]
        self.steps, self.token, self.created_at = data["steps"], data["continuation_token"], event.time

    def _message(self, event: Event) -> None:
        self.token = event.data["continuation_token"]
        self._received()

    def _turn_started(self, event: Event) -> None:
        self.turn = Turn(event.data["turn_id"], event.time)
        self._received()

    def _turn_ended(self, event: Event) -> None:
        self.turn = self.step = None  # for good: the turn that takes the work up again has a step of its own

    def _step_started(self, event: Event) -> None:
        self.step = Step(event.data["step_id"], event.data.get("turn_id"))

    def _step_completed(self, event: Event) -> None:
        self.step = None

    def _step_interrupted(self, event: Event) -> None:
        step = self.step
        if step is not None:  # else its turn is over already, and the step with it
            self.step = replace(step, status="interrupted") if self._step_waits(step) else None

    def _step_waits(self, step: Step) -> bool:
        return any(call.step_id == step.step_id for call in self.waiting.values())

    def _asked(self, event: Event) -> None:
        data = event.data
        self.waiting[data["interrupt_id"]] = Waiting(
            data["kind"],
            timestamps.parse(data["expires_at"]),
            self.turn and self.turn.turn_id,
            self.step and self.step.step_id,
        )
        self.status = WAITING

    def _call_closed(self, event: Event) -> None:
        self.waiting.pop(event.data["interrupt_id"], None)
        retired = event.data.get("action") == "cancel" or event.data.get("reason") is not None
        if self.step and self.step.status == "interrupted" and not (retired or self._step_waits(self.step)):
            self.step = replace(self.step, status=RUNNING)
        if self.turn:
            self._received()

    def _waits(self, event: Event) -> None:
        self.status, self.token = WAITING, event.data["continuation_token"]

    def _ended(self, event: Event) -> None:
        self.status = COMPLETED if event.type == "session.completed" else FAILED
        self.turn = self.step = None

    def _claimed(self, event: Event) -> None:
        self.leases[event.data["interrupt_id"]] = timestamps.parse(event.data["lease_until"])

    def _unclaimed(self, event: Event) -> None:
        named = event.data.get("interrupt_id")  # a result that Layby does not govern may hold anything there
        if isinstance(named, str):
            self.leases.pop(named, None)

    _CHANGES: ClassVar[dict[str, Callable[[Session, Event], None]]] = {
        "session.started": _started,
        "message.received": _message,
        "turn.started": _turn_started,
        "turn.completed": _turn_ended,
        "turn.failed": _turn_ended,
        "turn.cancelled": _turn_ended,
        "step.started": _step_started,
        "step.completed": _step_completed,
        "step.interrupted": _step_interrupted,
        "input.requested": _asked,
        "authorization.required": _asked,
        "input.completed": _call_closed,
        "authorization.completed": _call_closed,
        "input.expired": _call_closed,
        "session.waiting": _waits,
        "session.completed": _ended,
        "session.failed": _ended,
        "action.claimed": _claimed,
        "action.released": _unclaimed,
        "action.lapsed": _unclaimed,
        "action.settled": _unclaimed,
        "action.result": _unclaimed,
    }


_all_fields = attrgetter(*(one.name for one in fields(Session)))


def to_record(session: Session) -> dict[str, Any]:
    """What is stored of a session's head: names as short as they stay readable, nothing that is empty."""
    record: dict[str, Any] = {
        "thread": session.thread_id,
        "run": session.run_id,
        "steps": session.steps,
        "created": session.created_at,
        "chain": session.chain,
        "status": session.status,
        "token": session.token,
    }
    if session.agent is not None:
        record["agent"] = session.agent
    if turn := session.turn:
        record["turn"] = [turn.turn_id, turn.started_at]
    if step := session.step:
        record["step"] = [step.step_id, step.turn_id, step.status]
    if session.waiting:
        waiting = session.waiting.items()
        record["waiting"] = {iid: [one.kind, one.expires_at, one.turn_id, one.step_id] for iid, one in waiting}
    if session.leases:
        record["leases"] = session.leases
    return record


def from_record(session_id: str, seq: int, time: int, record: dict[str, Any]) -> Session:
    """The session of a stored head."""
    turn, step = record.get("turn"), record.get("step")
    return Session(
        session_id,
        record.get("agent"),
        record["thread"],
        record["run"],
        record["steps"],
        seq,
        time,
        record["created"],
        record["chain"],
        record["status"],
        record["token"],
        Turn(*turn) if turn else None,
        Step(*step) if step else None,
        {iid: Waiting(*waiting) for iid, waiting in record.get("waiting", {}).items()},
        dict(record.get("leases", {})),
    )
