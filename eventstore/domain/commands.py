"""What can be asked of a session. Facing words to `events`: imperative here, past tense there."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from eventstore.domain.schemas.response_schema import Checked


class Actor(NamedTuple):
    """Who asks: the authenticated name, and the key behind it where a console speaks for a person."""

    name: str
    via: str | None = None


class Absent(Enum):
    """The one value that JSON cannot send: nothing was given (`null` is an answer)."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class CreateSession:
    session_id: str
    agent: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    steps: str = "turn"
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    message: str | None = None


class NewEvent(NamedTuple):
    """One event as a publisher sent it. `pointer` is its place in the body (empty for a body that is one event)."""

    type: str
    data: dict[str, Any]
    occurred_at: str | None = None
    pointer: str = ""


class Publish(NamedTuple):
    events: list[NewEvent]
    expected_seq: int | None = None


@dataclass(frozen=True, slots=True)
class SendMessage:
    continuation_token: str
    message: str


@dataclass(frozen=True, slots=True)
class DecideCall:
    interrupt_id: str
    action: str
    note: str | None = None
    edited_args: Any = None
    response: Any = ABSENT
    run_id: str | None = None
    thread_id: str | None = None
    args_digest: str | None = None
    checked: Checked = field(default_factory=Checked, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CompleteAuthorization:
    interrupt_id: str
    success: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimCall:
    interrupt_id: str
    owner: str
    lease_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class ReleaseCall:
    interrupt_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordResult:
    interrupt_id: str
    result: Any
    attempt: int | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class SettleCall:
    interrupt_id: str
    outcome: str
    note: str
    result: Any = None


@dataclass(frozen=True, slots=True)
class ExpireDue:
    """Let every deadline and lease that has passed take effect. Every commit begins with it."""


CallCommand = DecideCall | CompleteAuthorization | ClaimCall | ReleaseCall | RecordResult | SettleCall
Command = CreateSession | Publish | SendMessage | CallCommand | ExpireDue
