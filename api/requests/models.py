"""The bodies that clients send, each as a strict model; `null` means absent unless a field says otherwise."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from eventstore.domain.commands import (
    ABSENT,
    ClaimCall,
    CompleteAuthorization,
    CreateSession,
    DecideCall,
    RecordResult,
    ReleaseCall,
    SendMessage,
    SettleCall,
)
from eventstore.domain.rules.decisions import check_shape
from eventstore.domain.values.field_types import Metadata, Name, Note, SessionId

LEASE_MS: Final = 60_000
"""How long a claim holds, in milliseconds, unless it says how long: as long as most tools run."""
LEASE_MIN_MS: Final = 100
"""A shorter lease would lapse before its holder could renew it."""
LEASE_MAX_MS: Final = 3_600_000
"""For so long at most, in milliseconds, is the outcome of a call unknown whose executor has vanished."""
_Lease = Annotated[int, Field(ge=LEASE_MIN_MS, le=LEASE_MAX_MS)]


class _Body(BaseModel):
    # Deferred: see `eventstore.domain.state_snapshot`.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class CreateBody(_Body):
    session_id: SessionId | None = None
    agent: Name | None = None
    thread_id: Name | None = None
    run_id: Name | None = None
    steps: Literal["turn", "explicit"] | None = None
    metadata: Metadata | None = None
    message: str | None = None

    def command(self, session_id: str) -> CreateSession:
        names = (self.agent, self.thread_id, self.run_id)
        return CreateSession(session_id, *names, self.steps or "turn", self.metadata or {}, self.message)


class MessageBody(_Body):
    continuation_token: str
    message: str

    def command(self) -> SendMessage:
        return SendMessage(self.continuation_token, self.message)


class DecideBody(_Body):
    action: Literal["approve", "reject", "respond"]
    note: Note | None = None
    edited_args: Any = None
    response: Any = None
    run_id: str | None = None
    thread_id: str | None = None
    args_digest: str | None = None

    def command(self, interrupt_id: str) -> DecideCall:
        """Raises `InvalidRequest` for fields that do not go together: that is judged before anything is looked up."""
        response = self.response if "response" in self.model_fields_set else ABSENT
        where = (self.run_id, self.thread_id, self.args_digest)
        command = DecideCall(interrupt_id, self.action, self.note, self.edited_args, response, *where)
        check_shape(command)
        return command


class AuthorizationBody(_Body):
    success: bool
    error: Note | None = None

    def command(self, interrupt_id: str) -> CompleteAuthorization:
        return CompleteAuthorization(interrupt_id, self.success, self.error)


class ClaimBody(_Body):
    owner: Annotated[Name, Field(min_length=1)]
    lease_ms: _Lease | None = None

    def command(self, interrupt_id: str) -> ClaimCall:
        return ClaimCall(interrupt_id, self.owner, LEASE_MS if self.lease_ms is None else self.lease_ms)


class ReleaseBody(_Body):
    attempt: int

    def command(self, interrupt_id: str) -> ReleaseCall:
        return ReleaseCall(interrupt_id, self.attempt)


class ResultBody(_Body):
    result: Any
    attempt: int | None = None
    is_error: bool | None = None

    def command(self, interrupt_id: str) -> RecordResult:
        return RecordResult(interrupt_id, self.result, self.attempt, bool(self.is_error))


class SettleBody(_Body):
    outcome: Literal["executed", "not_executed"]
    note: Note
    result: Any = None

    def command(self, interrupt_id: str) -> SettleCall:
        return SettleCall(interrupt_id, self.outcome, self.note, self.result)
