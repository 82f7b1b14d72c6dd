"""A session in a few lines: what each command leads to, as plain lists and dicts. No turns, no clock.

Every method says what the caller hears, `applied`, `duplicate` or the kind of refusal, and keeps the types of the
events that must stand in the log afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eventstore.domain.errors import (
    AlreadyClaimed,
    CallAlreadyDecided,
    CallExpired,
    CallNotFound,
    ContinuationTokenStale,
    Fenced,
    IllegalTransition,
    InterruptExists,
    InvalidRequest,
    LaybyError,
    NotApproved,
    NotIndeterminate,
    OutcomeUnknown,
    ResultAlreadyRecorded,
    SessionTerminal,
)

Heard = str | type[LaybyError]
OPTIONS = {"approval": ("approve", "reject"), "question": ("respond", "reject")}
STATUS = {"approve": "APPROVED_EXECUTING", "reject": "REJECTED", "cancel": "REJECTED", "respond": "EXECUTED"}
REFUSALS_KEPT = 10


@dataclass
class ModelCall:
    kind: str
    idempotent: bool = False
    status: str = "PENDING_APPROVAL"
    decision: tuple[str, str, Any] | None = None
    state: str | None = None
    attempt: int = 0
    valid: int | None = 0
    owner: str | None = None
    released: bool = False
    result: Any = None
    refusals: int = 0


@dataclass
class Model:
    types: list[str] = field(default_factory=lambda: ["session.started"])
    calls: dict[str, ModelCall] = field(default_factory=dict[str, ModelCall])
    status: str = "running"

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "failed")

    @property
    def pending(self) -> list[str]:
        return [name for name, call in self.calls.items() if call.status == "PENDING_APPROVAL"]

    def append(self) -> Heard:
        if self.ended:
            return IllegalTransition
        self.types.append("note.taken")
        return "applied"

    def ask(self, name: str, kind: str, idempotent: bool) -> Heard:
        if self.ended:
            return IllegalTransition
        if name in self.calls:
            return "duplicate" if self.calls[name].kind == kind else InterruptExists
        self.calls[name] = ModelCall(kind, idempotent and kind == "approval")
        self.types += ["input.requested", "session.waiting"]
        self.status = "waiting"
        return "applied"

    def expire(self, name: str) -> None:
        self.calls[name].status = "EXPIRED"
        self._closed("input.expired")

    def _closed(self, kind: str) -> None:
        self.types.append(kind)
        if not self.pending:
            self.types.append("session.waiting")

    def decide(self, name: str, action: str, response: Any, by: str) -> Heard:
        call = self.calls.get(name)
        if call is None:
            return CallNotFound
        if action not in OPTIONS[call.kind]:
            return InvalidRequest
        if call.decision is not None:
            return "duplicate" if call.decision == (action, by, response) else CallAlreadyDecided
        if call.status == "EXPIRED":
            if not self.ended and call.refusals < REFUSALS_KEPT:
                call.refusals += 1
                self.types.append("input.refused")
            return CallExpired
        call.decision, call.status = (action, by, response), STATUS[action]
        call.state = "unclaimed" if action == "approve" else None
        call.result = response
        self._closed("input.completed")
        return "applied"

    def _open(self, name: str) -> ModelCall | type[LaybyError]:
        call = self.calls.get(name)
        if call is None:
            return CallNotFound
        if call.state is None:
            return NotApproved
        return ResultAlreadyRecorded if call.status == "EXECUTED" else call

    def claim(self, name: str, owner: str) -> Heard:
        call = self._open(name)
        if not isinstance(call, ModelCall):
            return call
        if call.state == "claimed":
            return "renewed" if call.owner == owner else AlreadyClaimed
        if call.state == "indeterminate":
            return OutcomeUnknown
        call.attempt = call.valid = call.attempt + 1
        call.state, call.owner, call.released = "claimed", owner, False
        self.types.append("action.claimed")
        return "applied"

    def lapse(self, name: str) -> None:
        call = self.calls[name]
        call.state = "unclaimed" if call.idempotent else "indeterminate"
        self.types.append("action.lapsed")

    def release(self, name: str, attempt: int) -> Heard:
        call = self._open(name)
        if not isinstance(call, ModelCall):
            return call
        if call.released and attempt == call.attempt:
            return "duplicate"
        if not call.attempt or attempt != call.valid:
            return Fenced
        call.state, call.valid, call.released = "unclaimed", None, True
        self.types.append("action.released")
        return "applied"

    def record(self, name: str, value: Any, attempt: int | None) -> Heard:
        call = self.calls.get(name)
        if call is None:
            return CallNotFound
        if call.state is None:
            return NotApproved
        if attempt is None and call.attempt:
            return InvalidRequest
        if call.status == "EXECUTED":
            if (attempt or 0) != call.attempt:
                return Fenced
            return "duplicate" if call.result == value else ResultAlreadyRecorded
        if (attempt or 0) != call.valid:
            return Fenced
        call.status, call.state, call.result = "EXECUTED", "done", value
        self.types.append("action.result")
        return "applied"

    def settle(self, name: str, outcome: str, value: Any) -> Heard:
        call = self.calls.get(name)
        if call is None:
            return CallNotFound
        if call.state != "indeterminate":
            return NotIndeterminate
        if outcome == "executed":
            call.status, call.state, call.result = "EXECUTED", "done", value
        else:
            call.state, call.valid = "unclaimed", None
        self.types.append("action.settled")
        return "applied"

    def message(self, *, stale: bool) -> Heard:
        if self.ended:
            return SessionTerminal
        if stale:
            return ContinuationTokenStale
        self.types.append("message.received")
        if not self.pending:
            self.status = "running"
        return "applied"

    def end(self, status: str) -> Heard:
        if self.ended:
            return IllegalTransition
        for name in self.pending:
            call = self.calls[name]
            call.decision, call.status = ("cancel", "layby", None), "REJECTED"
            self.types.append("input.completed")
        self.types.append(f"session.{status}")
        self.status = status
        return "applied"
