"""Bodies in and answers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http.authentication import Principal
from api.http.body_budget import Budget
from api.http.headers import idempotency_key, retry_of
from api.services import Services
from eventstore.commit.batch import Answer, Retry
from eventstore.domain.errors import InvalidRequest, SessionNotFound, TooLarge
from eventstore.domain.values import json_text
from eventstore.domain.values.field_types import SESSION_ID, field_errors
from eventstore.domain.values.json_text import BadJson

BODY_MAX: Final = 1024 * 1024
JSON_TYPE: Final = "application/json"
_JSON_FIELD: Final = (b"content-type", JSON_TYPE.encode())
_Model = TypeVar("_Model", bound=BaseModel)


class Posted(NamedTuple):
    """A POST: who sent it, its body, and the idempotency key it came with."""

    principal: Principal
    body: bytes
    retry: Retry | None


async def receive_post(services: Services, request: Request, scope: str, limit: int = BODY_MAX) -> Posted:
    """Let the request in and read its body. Raises `LaybyError`."""
    principal = services.door.enter(request, scope)
    key = idempotency_key(request)  # a garbled one is refused before anything is read
    services.store.check_room()
    body = await read_body(services.budget, request, limit)
    if not services.door.admits(principal.key_id):  # a body may take minutes, and its key may have gone meanwhile
        principal = services.door.enter(request, scope)
    return Posted(principal, body, retry_of(request, principal, key, body))


async def read_body(budget: Budget, request: Request, limit: int) -> bytes:
    """The whole body, never holding more than the limit. Raises `TooLarge`, and `Overloaded` beyond the budget."""
    declared = next((value for name, value in request.scope["headers"] if name == b"content-length"), b"0")
    if int(declared) > limit:
        raise _too_large(limit)
    budget.check(int(declared))
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        if len(body) + len(piece) > limit:
            raise _too_large(limit)
        budget.take(request.scope, len(piece))
        body += piece
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is larger than {limit} bytes, the most that this route takes")


def parse_json(body: bytes) -> Any:
    """Raises `InvalidRequest`."""
    if not body:
        raise InvalidRequest.unreadable("the request needs a JSON body")
    try:
        return json_text.loads(body)
    except BadJson as error:
        raise bad_json(error) from None


def bad_json(error: BadJson, before: str = "") -> InvalidRequest:
    pointer = before + error.pointer
    return InvalidRequest.body(pointer, str(error)) if pointer else InvalidRequest.unreadable(str(error))


def parse_model(model: type[_Model], body: bytes) -> _Model:
    """The body as this model has it. Raises `InvalidRequest`, which points at all that is wrong."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidRequest.unreadable("the body must be a JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest.of(field_errors(error)) from None


def session_id(request: Request) -> str:
    """The session that the path names. Raises `SessionNotFound` for what can be no session's id."""
    name: str = request.path_params["session_id"]
    if not SESSION_ID.fullmatch(name):
        raise SessionNotFound()
    return name


def interrupt_id(request: Request) -> str:
    return request.path_params["interrupt_id"]


class _Plain(Response):
    """A JSON answer without headers of its own: the busiest of them. Starlette would look for what it may lack."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code: int = status
        self.body: bytes = body
        self.background: None = None
        self.raw_headers: list[tuple[bytes, bytes]] = [(b"content-length", b"%d" % len(body)), _JSON_FIELD]


def json_answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, JSON_TYPE) if headers else _Plain(body, status)


def encode(value: Any) -> bytes:
    return json_text.dumps(value).encode()


def answered(answer: Answer, status: int = 200, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """What a command came to; a repeated answer says that it is one."""
    replayed = {"Idempotency-Replayed": "true"} if answer.replayed else {}
    return json_answer(encode({**answer.result, **more}), status, {**(headers or {}), **replayed})
