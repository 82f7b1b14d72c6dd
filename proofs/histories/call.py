"""The words of a call's history: the states of a call, what can be asked, what is heard, and how a call is shown."""

from __future__ import annotations

from dataclasses import dataclass, replace

ABSENT, PENDING, APPROVED = "ABSENT", "PENDING_APPROVAL", "APPROVED_EXECUTING"
EXECUTED, REJECTED, EXPIRED = "EXECUTED", "REJECTED", "EXPIRED"
EFFECTIVE = ("applied", "granted")
"""The words for an answer that says that something changed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Values are JSON texts, so that they compare as values. The note tells apart who was first; it does not count
    when decisions are compared."""

    action: str
    by: str
    note: str | None = None
    edited_args: str = "null"
    response: str = "null"

    def same(self, other: Decision | None) -> bool:
        return other is not None and replace(self, note=None) == replace(other, note=None)


@dataclass(frozen=True, slots=True)
class Execution:
    """Who runs it. `valid` is the attempt whose result would be taken. A lease whose end nobody was told is None;
    `claimed_until` is its end as the claim said, before it was renewed."""

    state: str = "unclaimed"
    attempt: int = 0
    owner: str | None = None
    valid: int | None = 0
    lease_until: str | None = None
    claimed_until: str | None = None
    released_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """The state."""

    status: str = ABSENT
    arguments: str = ""
    asked_seq: int | None = None
    decision: Decision | None = None
    decided_seq: int | None = None
    execution: Execution | None = None
    result: str = "null"
    is_error: bool = False
    result_seq: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What a reader is shown of it: `how` says on which page, since a page leaves something out."""

    how: str
    status: str
    decision: Decision | None = None
    execution: tuple[str, int, str | None, str | None] | None = None
    result: str = "null"
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    arguments: str


@dataclass(frozen=True, slots=True)
class Decide:
    """`offered` is false for what the call does not take; `view` is false for a digest of other arguments."""

    decision: Decision
    offered: bool = True
    view: bool = True


@dataclass(frozen=True, slots=True)
class Claim:
    owner: str


@dataclass(frozen=True, slots=True)
class Release:
    attempt: int


@dataclass(frozen=True, slots=True)
class Record:
    attempt: int | None
    result: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Settle:
    outcome: str
    result: str


@dataclass(frozen=True, slots=True)
class Look:
    how: str


@dataclass(frozen=True, slots=True)
class Deadline:
    """It passes by itself, at its moment."""


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """The lease that ends then passes, unless it was renewed; None: one whose end nobody was told."""

    until: str | None


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """It retires what still waits."""


Asked = Ask | Decide | Claim | Release | Record | Settle | Look | Deadline | LeaseEnd | SessionEnd


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer: `applied`, `duplicate`, `granted`, `shown`, or the slug of a problem."""

    word: str
    seq: int | None = None
    attempt: int | None = None
    until: str | None = None
    view: View | None = None


def shown(call: Call, how: str, told: Heard) -> View:
    """The call on a page: its own, its `document`, its session's `snapshot`, or the `inbox` of what waits."""
    if how == "inbox":
        return View(how, call.status if call.status == PENDING else "")
    if how == "document":
        return View(how, call.status, call.decision, None, call.result)
    return View(how, call.status, call.decision, _shown_execution(call, how, told), call.result, call.is_error)


def _shown_execution(call: Call, how: str, told: Heard) -> tuple[str, int, str | None, str | None] | None:
    """Only a lease that runs has an end that matters."""
    execution = call.execution
    if execution is None:
        return None
    until = execution.claimed_until if how == "snapshot" else execution.lease_until
    if execution.state != "claimed":
        until = None
    elif until is None and told.view and told.view.execution:  # nobody knew; any end will do
        until = told.view.execution[3]
    return execution.state, execution.attempt, execution.owner, until
