"""Who is asking. The one place where a request's principal comes from, and where a door could stay shut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from eventstore.domain.commands import Actor
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.events import SERVICE

ACTOR_MAX: Final = 200
DEFAULT_TENANT: Final = "default"
ANONYMOUS: Final = "anonymous"


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose things these are, and who acts."""

    tenant: str
    actor: Actor


_NOBODY = Principal(DEFAULT_TENANT, Actor(ANONYMOUS))


class Door:
    """An open development server: everyone is `anonymous`, and may speak for a person."""

    def enter(self, request: Request, scope: str) -> Principal:
        """The principal of a request that needs this scope (empty: any key will do). Raises `LaybyError`."""
        for name, value in request.scope["headers"]:
            if name == b"layby-actor":
                return Principal(DEFAULT_TENANT, Actor(_person(value), via=ANONYMOUS))
        return _NOBODY


def _person(value: bytes) -> str:
    try:
        name = value.decode()
    except UnicodeDecodeError:
        name = value.decode("latin-1")
    if not 1 <= len(name) <= ACTOR_MAX:
        raise InvalidRequest.header("Layby-Actor", f"must be a name of 1 to {ACTOR_MAX} characters")
    if name == SERVICE:  # else a person's deed could pass for the service's own
        raise InvalidRequest.header("Layby-Actor", f"must not be {SERVICE}, the service itself")
    return name
