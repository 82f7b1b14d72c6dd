"""A route, declared once. The router, the checks before its handler and the OpenAPI document read this declaration.

The checks come in one order, the first two in the router: path and method, names in the query, key and scope,
idempotency key, room for another command, body.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from api.http.authentication import Authenticator, Principal
from api.http.headers import idempotency_key, retry_of
from api.http.json_schema import Node
from api.http.parameter_types import QueryParameter, RequestHeader
from api.http.router import Answering, path_names
from api.requests.bodies import read_body
from api.services import Services
from eventstore.commit.batch import Retry
from eventstore.domain import errors
from eventstore.domain.errors import LaybyError, SessionNotFound
from eventstore.domain.values.field_types import SESSION_ID

BODY_MAX: Final = 1024 * 1024
"""The most bytes of a body, where its route does not take more: ample for a decision or the result of a tool."""

Handler = Callable[[Services, "Received"], Awaitable[Response]]
Problem = type[LaybyError]
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """What a route takes: its schema by media type, and the most bytes that it may have."""

    content: Mapping[str, Node]
    limit: int = BODY_MAX


@dataclass(frozen=True, slots=True)
class Operation:
    """What only the document says of an endpoint."""

    id: str
    tag: str
    summary: str
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """One method of one path. `answers` are its successes, by status; `problems` its own refusals, to which
    `all_problems` adds those that come with its shape."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    handler: Handler
    operation: Operation
    _: KW_ONLY
    scope: str | None
    """What a key must have; `ANY`: any key will do. None: nobody is authenticated."""
    query: tuple[QueryParameter[object], ...] = ()
    headers: tuple[RequestHeader, ...] = ()
    body: RequestBody | None = None
    """Needs a scope, and brings `Idempotency-Key` with it."""
    answers: Mapping[int, Node]
    problems: tuple[Problem, ...] = ()
    guard: Callable[[Answering], Answering] | None = None
    """For a mount with refusals of its own form, which then stand among its `answers`: wraps all that follows the
    router, the checks too. Such a mount passes over names in the query that it does not know."""

    @property
    def path_names(self) -> list[str]:
        return path_names(self.path)

    @property
    def query_names(self) -> frozenset[str] | None:
        """The names that the query may have; None: any."""
        return None if self.guard else frozenset(parameter.name for parameter in self.query)

    @property
    def all_problems(self) -> list[Problem]:
        """Those of its own, and those that come with its shape."""
        found = [errors.InternalError, errors.UntrustedOrigin, *self.problems]
        if self.path_names or self.query or self.headers or self.body:
            found.append(errors.InvalidRequest)
        if self.scope is not None:
            found += [errors.Unauthorized, errors.MissingScope, errors.StoreUnavailable, errors.Overloaded]
        if self.scope:
            found.append(errors.StoreFull)
        if "session_id" in self.path_names:
            found += [errors.SessionNotFound, errors.SessionDeleted]
        if "interrupt_id" in self.path_names:
            found.append(errors.CallNotFound)
        if self.body:
            found += [errors.TooLarge, errors.RequestTimeout, errors.IdempotencyKeyReused, errors.RequestInProgress]
        return list(dict.fromkeys(found))


class Received(NamedTuple):
    """A request that has passed the checks, as its handler gets it."""

    endpoint: Endpoint
    request: Request
    caller: Principal | None = None
    body: bytes = b""
    retry: Retry | None = None
    """The idempotency key that the body came with."""

    @property
    def principal(self) -> Principal:
        """Who asks. Raises `LookupError` on a route that authenticates nobody."""
        if self.caller is None:
            raise LookupError(f"{self.endpoint.operation.id} has no scope, so that nobody is authenticated")
        return self.caller

    @property
    def session_id(self) -> str:
        """The session that the path names. Raises `SessionNotFound` for what can be no session's id."""
        name: str = self.request.path_params["session_id"]
        if not SESSION_ID.fullmatch(name):
            raise SessionNotFound()
        return name

    @property
    def interrupt_id(self) -> str:
        """The call that the path names."""
        return self.request.path_params["interrupt_id"]

    def query(self, parameter: QueryParameter[_Value]) -> _Value:
        """What the query has for this parameter. Raises `InvalidRequest`, and `LookupError` if it was not declared."""
        if parameter not in self.endpoint.query:
            raise LookupError(f"{self.endpoint.operation.id} does not declare {parameter.key}")
        return parameter.read(self.request.query_params.get(parameter.name))

    def check_key_again(self, door: Authenticator) -> None:
        """For what has waited long: its key may have gone meanwhile. Raises what the first check raises."""
        if self.endpoint.scope is not None:
            door.enter(self.request, self.endpoint.scope)


async def answer(services: Services, endpoint: Endpoint, request: Request) -> Response:
    """Make the checks that the endpoint declares, and carry out what passes them. Raises `LaybyError`."""
    if endpoint.scope is None:
        return await endpoint.handler(services, Received(endpoint, request))
    principal = services.door.enter(request, endpoint.scope)
    if endpoint.body is None:
        return await endpoint.handler(services, Received(endpoint, request, principal))
    key = idempotency_key(request)  # a garbled one is refused before anything is read
    services.store.check_room()
    body = await read_body(services.budget, request, endpoint.body.limit)
    if not services.door.admits(principal.key_id):  # a body may take minutes, and its key may have gone meanwhile
        principal = services.door.enter(request, endpoint.scope)
    received = Received(endpoint, request, principal, body, retry_of(request, principal, key, body))
    return await endpoint.handler(services, received)
