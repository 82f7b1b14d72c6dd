"""Deciding: an input is approved or rejected, an authorization has gone well or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from api.http.json_schema import ref
from api.requests.descriptions import gives, json_content
from api.requests.endpoint import Endpoint, Operation, Received, RequestBody
from api.requests.idempotency import execute_anchored
from api.services import Services
from api.zhin.answers import BASE, SESSION_HEADER, BadRequest, named, ok, session_of
from api.zhin.bodies import Body
from eventstore.domain.call import Call
from eventstore.domain.commands import CompleteAuthorization, DecideCall
from eventstore.domain.errors import CallAlreadyDecided, CallExpired, CallNotFound, SessionDeleted, SessionNotFound

_NOT_FOUND: Final = "AUTHORIZATION_REQUEST_NOT_FOUND"
AUTHORIZATION_CODES: Final[Mapping[str, str]] = {
    "session-not-found": _NOT_FOUND,
    "call-not-found": _NOT_FOUND,
    "call-already-decided": "REQUEST_ALREADY_DECIDED",
    "call-expired": "REQUEST_EXPIRED",
}


async def decide(services: Services, received: Received) -> Response:
    name, principal, store = session_of(received), received.principal, services.store
    body = Body(received.body)
    request_id = body.text("requestId", "REQUEST_ID_REQUIRED")
    approved = body.flag("approved", "APPROVED_REQUIRED")
    command = _decision(await store.call(principal.tenant, name, request_id), approved=approved)
    answer = await store.execute(principal.tenant, name, command, principal.actor, received.retry)
    return ok(answer, sessionId=name, requestId=request_id, approved=approved)


def _decision(call: Call, *, approved: bool) -> DecideCall:
    """Approve, or answer `true` where only an answer was offered; or reject."""
    if call.kind == "authorization":
        raise CallNotFound(f"{call.interrupt_id} is an authorization")
    if not approved and "reject" in call.options:
        return DecideCall(call.interrupt_id, "reject")
    if approved and "approve" in call.options:
        return DecideCall(call.interrupt_id, "approve")
    if approved and "respond" in call.options:
        return DecideCall(call.interrupt_id, "respond", response=True)
    raise BadRequest("NOT_OFFERED")


async def complete(services: Services, received: Received) -> Response:
    body, request_id = Body(received.body), received.request.path_params["requestId"]
    success = body.flag("success", "SUCCESS_REQUIRED")
    error, name = body.optional_text("error"), body.optional_text("sessionId")
    name = named(received.request, await _asked_in(services, received, request_id) if name is None else name)
    command = CompleteAuthorization(request_id, success, error)
    name, answer = await execute_anchored(services, received, name, command)
    named(received.request, name)
    return ok(answer, requestId=request_id, success=success)


async def _asked_in(services: Services, received: Received, request_id: str) -> str:
    """The session whose newest open authorization has this id; one that is closed hears that it is."""
    name = await services.read_models.newest_authorization(received.principal.tenant, request_id)
    if name is None:
        raise CallNotFound(f"no session asked for an authorization {request_id}")
    return name


_DECIDED: Final = (CallNotFound, SessionNotFound, CallAlreadyDecided, CallExpired, SessionDeleted)
INPUT: Final = Endpoint(
    "POST",
    f"{BASE}/session/{{id}}/input",
    decide,
    Operation("zhinInput", "zhin", "Approve or reject a request"),
    scope="decide",
    body=RequestBody(json_content(ref("ZhinInput"))),
    answers={200: gives("ZhinInputTaken", "Decided.", SESSION_HEADER)},
    problems=_DECIDED,
)
AUTHORIZATION: Final = Endpoint(
    "POST",
    f"{BASE}/authorization/{{requestId}}/complete",
    complete,
    Operation("zhinCompleteAuthorization", "zhin", "Tell how an authorization went"),
    scope="decide",
    body=RequestBody(json_content(ref("ZhinComplete"))),
    answers={200: gives("ZhinCompleted", "Taken.")},
    problems=_DECIDED,
)
