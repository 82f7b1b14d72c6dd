"""Bodies in and answers out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http.body_budget import BodyBudget
from eventstore.commit.batch import Answer
from eventstore.domain.errors import InvalidRequest, TooLarge
from eventstore.domain.values import json_text
from eventstore.domain.values.field_types import field_errors
from eventstore.domain.values.json_text import BadJson

JSON_TYPE: Final = "application/json"
_Model = TypeVar("_Model", bound=BaseModel)


async def read_body(budget: BodyBudget, request: Request, limit: int) -> bytes:
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


def json_answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, headers, JSON_TYPE)


def encode(value: Any) -> bytes:
    return json_text.dumps(value).encode()


def answered(answer: Answer, status: int = 200, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """What a command came to; a repeated answer says that it is one."""
    replayed = {"Idempotency-Replayed": "true"} if answer.replayed else {}
    return json_answer(encode({**answer.result, **more}), status, {**(headers or {}), **replayed})
