"""Every way Layby can say no, one class a problem.

LaybyError
├── Refused                         the caller's doing; nothing has changed
│   ├── Invalid                     what was sent is wrong in itself, and names the fields
│   │   ├── InvalidRequest          a body, a query parameter or a header that breaks the contract
│   │   └── InvalidSnapshot         a state_snapshot document that is not exactly version 2
│   ├── ReservedType                an event type that only the service writes
│   ├── TooLarge                    an event, a batch or a body beyond its limit
│   ├── IdempotencyKeyReused        the key of another request
│   ├── RequestTimeout              a request that does not come to its end
│   ├── Denied                      the door stays shut
│   │   ├── UntrustedOrigin         a web page of somebody else
│   │   ├── Unauthorized            no key, or a wrong one
│   │   └── MissingScope            a key that may not do this
│   ├── Missing                     no such thing
│   │   ├── NotFound                no such route
│   │   ├── SessionNotFound
│   │   ├── CallNotFound
│   │   └── NoSuchPoint             a seq or a time that the session never had
│   ├── MethodNotAllowed            the route exists, this verb does not
│   ├── UpgradeRequired             the route exists, but not in HTTP
│   ├── Gone                        it was there once, and will not be again
│   │   ├── SessionDeleted
│   │   ├── CallExpired             the deadline came first
│   │   ├── CursorTooOld            the feed has been trimmed past it
│   │   └── Diverged                the cursor was cut from a history that is not ours
│   └── Conflict                    right in itself, but not now
│       ├── SessionExists
│       ├── SessionTerminal         the session has ended
│       ├── SessionBusy             a turn is open
│       ├── ContinuationTokenStale  somebody else spoke first
│       ├── IllegalTransition       an event out of order
│       ├── VersionMismatch         If-Match names another version
│       ├── InterruptExists         the same id for another request
│       ├── TooManyCalls            as many as one session may have open wait already
│       ├── RunMismatch             a decision meant for another run
│       ├── CallAlreadyDecided      somebody else decided first
│       ├── StaleView               other arguments than those shown
│       ├── NotApproved             nothing to run
│       ├── ResultAlreadyRecorded   the one result is there
│       ├── AlreadyClaimed          another owner runs it
│       ├── OutcomeUnknown          its executor vanished; a person must settle it
│       ├── Fenced                  a later attempt, or none, is the current one
│       ├── NotIndeterminate        nothing to settle
│       └── RequestInProgress       the first request with this key still runs
├── Unavailable                     nothing half-written; the same request may be sent again
│   ├── StoreUnavailable            the engine does not answer
│   ├── Overloaded                  too much at once
│   └── StoreFull                   the engine is out of memory
└── InternalError                   a fault of ours

A leaf has a slug and a title; how a slug travels over HTTP is the business of `api.http.problems`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self


class LaybyError(Exception):
    """`detail` helps a person mend the request; `members` are shown beside it, as they are."""

    slug: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, detail: str, /, **members: Any) -> None:
        super().__init__(detail)
        self.detail: str = detail
        self.members: dict[str, Any] = members


class Refused(LaybyError):
    """The caller's doing."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with a request: where it is (exactly one place), and what would be right.

    A pointer is RFC 6901, into the body as it was sent; the empty one means the whole body.
    """

    message: str
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None

    def __post_init__(self) -> None:
        if len(self._places()) != 1:
            raise ValueError("a field error names exactly one of pointer, parameter and header")

    def as_dict(self) -> dict[str, str]:
        return {**self._places(), "message": self.message}

    def __str__(self) -> str:
        (place, name), *_ = self._places().items()
        where = (name or "the body") if place == "pointer" else f"{place} {name}"
        return f"{where}: {self.message}"

    def _places(self) -> dict[str, str]:
        places = {"pointer": self.pointer, "parameter": self.parameter, "header": self.header}
        return {place: name for place, name in places.items() if name is not None}


class Invalid(Refused):
    """Wrong in itself. `errors` says where; it is empty when there is nothing to point into."""

    def __init__(self, detail: str, /, errors: Sequence[FieldError] = (), **members: Any) -> None:
        super().__init__(detail, errors=[error.as_dict() for error in errors], **members)
        self.errors: list[FieldError] = list(errors)

    @classmethod
    def of(cls, errors: Sequence[FieldError]) -> Self:
        """All of these at once; the detail is made of them."""
        return cls("; ".join(map(str, errors)), errors)

    @classmethod
    def body(cls, pointer: str, message: str) -> Self:
        return cls.of([FieldError(message, pointer=pointer)])

    @classmethod
    def unreadable(cls, message: str) -> Self:
        """No JSON, or not of the right kind at all."""
        return cls(message)


class InvalidRequest(Invalid):
    slug = "invalid-request"
    title = "The request is not valid"

    @classmethod
    def parameter(cls, name: str, message: str) -> Self:
        return cls.of([FieldError(message, parameter=name)])

    @classmethod
    def header(cls, name: str, message: str) -> Self:
        return cls.of([FieldError(message, header=name)])


class InvalidSnapshot(Invalid):
    slug = "invalid-snapshot"
    title = "The state snapshot is not a valid version 2 document"


class ReservedType(Refused):
    slug = "reserved-type"
    title = "Only the service writes events of this type"


class TooLarge(Refused):
    slug = "too-large"
    title = "More than the limit allows"


class IdempotencyKeyReused(Refused):
    slug = "idempotency-key-reused"
    title = "The Idempotency-Key belongs to another request"


class RequestTimeout(Refused):
    slug = "request-timeout"
    title = "The request took too long to arrive"


class Denied(Refused):
    """The door stays shut."""


class UntrustedOrigin(Denied):
    slug = "untrusted-origin"
    title = "The request comes from a web page that this server does not trust"


class Unauthorized(Denied):
    """`refused` says that a key was sent, and does not open this door."""

    slug = "unauthorized"
    title = "A valid key is needed"

    def __init__(self, detail: str, /, *, refused: bool = False, **members: Any) -> None:
        super().__init__(detail, **members)
        self.refused: bool = refused


class MissingScope(Denied):
    """The member `scope` names the one that is needed."""

    slug = "missing-scope"
    title = "The key lacks a scope"

    def __init__(self, detail: str, /, scope: str = "", **members: Any) -> None:
        super().__init__(detail, scope=scope, **members)
        self.scope: str = scope


class Missing(Refused):
    """No such thing, or not for this tenant: the two look the same."""


class NotFound(Missing):
    slug = "not-found"
    title = "No such route"


class SessionNotFound(Missing):
    slug = "session-not-found"
    title = "No such session"

    def __init__(self, detail: str = "there is no session of this id", /, **members: Any) -> None:
        super().__init__(detail, **members)


class CallNotFound(Missing):
    slug = "call-not-found"
    title = "No such call"


class NoSuchPoint(Missing):
    slug = "no-such-point"
    title = "The session has no such point"


class MethodNotAllowed(Refused):
    """`allow` lists the verbs that the route does have."""

    slug = "method-not-allowed"
    title = "The route has no such method"

    def __init__(self, detail: str, /, allow: Sequence[str] = (), **members: Any) -> None:
        super().__init__(detail, **members)
        self.allow: list[str] = list(allow)


class UpgradeRequired(Refused):
    slug = "upgrade-required"
    title = "The route is a WebSocket"


class Gone(Refused):
    """It was there once, and will not be again."""


class SessionDeleted(Gone):
    slug = "session-deleted"
    title = "The session was deleted"

    def __init__(self, detail: str = "the session was deleted; its id is not given out again", /, **members: Any):
        super().__init__(detail, **members)


class CallExpired(Gone):
    slug = "call-expired"
    title = "The deadline of the call has passed"


class CursorTooOld(Gone):
    slug = "cursor-too-old"
    title = "The cursor is older than what is kept"


class Diverged(Gone):
    slug = "diverged"
    title = "The cursor belongs to a history that is no longer ours"


class Conflict(Refused):
    """Right in itself, but not in the state that things are in."""


class SessionExists(Conflict):
    slug = "session-exists"
    title = "There is a session of this id already"


class SessionTerminal(Conflict):
    slug = "session-terminal"
    title = "The session has ended"


class SessionBusy(Conflict):
    slug = "session-busy"
    title = "A turn is open"


class ContinuationTokenStale(Conflict):
    slug = "continuation-token-stale"
    title = "The continuation token is not the newest"


class IllegalTransition(Conflict):
    slug = "illegal-transition"
    title = "The event does not fit the state of the session"


class VersionMismatch(Conflict):
    slug = "version-mismatch"
    title = "The session is at another version"


class InterruptExists(Conflict):
    slug = "interrupt-exists"
    title = "The interrupt_id belongs to another request"


class TooManyCalls(Conflict):
    slug = "too-many-calls"
    title = "As many calls as a session may have open wait already"


class RunMismatch(Conflict):
    slug = "run-mismatch"
    title = "The call belongs to another run"


class CallAlreadyDecided(Conflict):
    slug = "call-already-decided"
    title = "The call has been decided"


class StaleView(Conflict):
    slug = "stale-view"
    title = "The call has other arguments than those that were shown"


class NotApproved(Conflict):
    slug = "not-approved"
    title = "The call is not approved to run"


class ResultAlreadyRecorded(Conflict):
    slug = "result-already-recorded"
    title = "The call has its result"


class AlreadyClaimed(Conflict):
    slug = "already-claimed"
    title = "Another owner holds the call"


class OutcomeUnknown(Conflict):
    slug = "outcome-unknown"
    title = "Nobody knows whether the tool ran"


class Fenced(Conflict):
    slug = "fenced"
    title = "The attempt is not the current one"


class NotIndeterminate(Conflict):
    slug = "not-indeterminate"
    title = "There is nothing to settle"


class RequestInProgress(Conflict):
    slug = "request-in-progress"
    title = "The first request with this Idempotency-Key still runs"


class Unavailable(LaybyError):
    """Not now. Nothing was half-written, so the same request may be sent again."""

    retry_after_s: int = 1


class StoreUnavailable(Unavailable):
    slug = "store-unavailable"
    title = "The store cannot be reached"


class Overloaded(Unavailable):
    slug = "overloaded"
    title = "Too much at once"


class StoreFull(Unavailable):
    slug = "store-full"
    title = "The store is out of memory"


class InternalError(LaybyError):
    """A fault of ours. What went wrong belongs in our log; a stranger always reads this one detail."""

    slug = "internal-error"
    title = "Something went wrong on our side"

    def __init__(self) -> None:
        super().__init__(
            "The fault is not in the request. It may be sent again; if it keeps failing, "
            "report the Layby-Request-Id of this answer."
        )


def leaves(root: type[LaybyError] = LaybyError) -> list[type[LaybyError]]:
    """The classes that have a slug, in the order of the tree; what other modules derive from them is left out."""
    below = [leaf for child in root.__subclasses__() if child.__module__ == __name__ for leaf in leaves(child)]
    return below or [root]
