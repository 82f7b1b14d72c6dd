"""Who is asking. The one place where a request's principal comes from, and where the door stays shut.

It is judged by the headers alone, before a body is read and before anything is looked up, so that a stranger learns
nothing from an answer or from the time that it takes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request

from api.http.json_schema import text
from api.http.parameter_types import RequestHeader
from eventstore.api_keys.cache import KeyringCache
from eventstore.domain import api_keys
from eventstore.domain.api_keys import ANONYMOUS, DEFAULT_TENANT, AccessKey
from eventstore.domain.commands import Actor
from eventstore.domain.errors import InvalidRequest, MissingScope, Unauthorized
from eventstore.domain.events import SERVICE

ACTOR_MAX: Final = 200
ACT_AS: Final = "act_as"
LAYBY_ACTOR: Final = RequestHeader(
    "Layby-Actor",
    f"The person behind a console: `by` is then this name, and `via` that of the key. Needs the scope `{ACT_AS}`.",
    text(minLength=1, maxLength=ACTOR_MAX),
)
_BLANKS: Final = " \t"
"""What HTTP takes for blank; Python's own idea of it is wider."""
_SEND: Final = "send one as Authorization: Bearer <key>"


class Principal(NamedTuple):
    """Whose things these are, who acts, and by which key it came in (None: the door was open)."""

    tenant: str
    actor: Actor
    key_id: str | None = None


_ANYBODY: Final = Principal(DEFAULT_TENANT, Actor(ANONYMOUS))


class Authenticator:
    """Open to everyone, who is `anonymous` then, as long as the store never had a key."""

    def __init__(self, keyring: KeyringCache) -> None:
        self._keyring: KeyringCache = keyring

    def __str__(self) -> str:
        """As the operator reads it when the server starts."""
        if self.open:
            return "an open development server: loopback only, no keys"
        match self._keyring.live:
            case 0:
                return "shut: every key is revoked or has expired (layby keys create makes one)"
            case 1:
                return "with 1 key"
            case many:
                return f"with {many} keys"

    @property
    def open(self) -> bool:
        """Whether everyone gets in. Raises `StoreUnavailable` before the keys were read."""
        return self._keyring.open

    def enter(self, request: Request, scope: str) -> Principal:
        """The principal of a request that needs this scope (empty: any key will do).

        Raises `Unauthorized`, `MissingScope`, `InvalidRequest`; `StoreUnavailable` before the keys were read.
        """
        if self.open:
            return _ANYBODY if not _persons(request) else Principal(DEFAULT_TENANT, _actor(request, ANONYMOUS))
        key = self._key(request)
        if not key.may(scope):
            raise _lacks(key, scope)
        if _persons(request) and not key.may(ACT_AS):
            raise _lacks(key, ACT_AS)
        return Principal(key.tenant, _actor(request, key.name), key.key_id)

    def admits(self, key_id: str | None) -> bool:
        """Whether what came in by this key may go on."""
        return self.open if key_id is None else self._keyring.find(key_id) is not None

    def readmit(self, principal: Principal) -> None:
        """Whether somebody who came in before may go on. Raises `Unauthorized`."""
        if not self.admits(principal.key_id):
            raise Unauthorized("the key that this line was opened with opens nothing any more", refused=True)

    def _key(self, request: Request) -> AccessKey:
        sent = _values(request, b"authorization")
        if not sent:
            raise Unauthorized(f"this needs a key: {_SEND}")
        scheme, _, text = sent[0].decode("latin-1").strip(_BLANKS).partition(" ")
        if len(sent) > 1 or scheme.lower() != "bearer" or not text.strip(_BLANKS):
            raise Unauthorized(f"there is no key in this Authorization header: {_SEND}")
        text = text.strip(_BLANKS)
        key = self._keyring.find(api_keys.id_of(text))
        if key is None or not key.opens_for(text):
            raise Unauthorized("this key opens nothing: it is wrong, revoked or has expired", refused=True)
        return key


def _lacks(key: AccessKey, scope: str) -> MissingScope:
    use = "Layby-Actor" if scope == ACT_AS else "this"
    return MissingScope(f"{use} needs the scope {scope}; the key {key.name} has {', '.join(key.scopes)}", scope=scope)


def _values(request: Request, wanted: bytes) -> list[bytes]:
    return [value for name, value in request.scope["headers"] if name == wanted]


def _persons(request: Request) -> list[bytes]:
    return _values(request, b"layby-actor")


def _actor(request: Request, name: str) -> Actor:
    """Who acts: the one that came in, or the person for whom it does."""
    persons = _persons(request)
    if not persons:
        return Actor(name)
    if len(persons) > 1:
        raise InvalidRequest.header("Layby-Actor", "must be sent once: one person decides")
    return Actor(_person(persons[0]), via=name)


def _person(value: bytes) -> str:
    try:
        name = value.decode()
    except UnicodeDecodeError:
        name = value.decode("latin-1")
    if not 1 <= len(name) <= ACTOR_MAX:
        raise InvalidRequest.header("Layby-Actor", f"must be a name of 1 to {ACTOR_MAX} characters")
    if not name.isprintable() or name.isspace():
        raise InvalidRequest.header("Layby-Actor", "must be a name that can be read: no control characters, not blank")
    if name.strip().lower() == SERVICE:  # else a person's deed could pass for the service's own
        raise InvalidRequest.header("Layby-Actor", f"must not be {SERVICE}, the service itself")
    return name
