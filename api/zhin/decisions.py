"""Deciding: an input is approved or rejected, an authorization has gone well or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.requests.bodies import Posted, receive_post
from api.requests.idempotency import execute_anchored
from api.services import Services
from api.zhin.answers import BadRequest, named, ok, session_of
from api.zhin.bodies import Body
from eventstore.domain.call import Call
from eventstore.domain.commands import CompleteAuthorization, DecideCall
from eventstore.domain.errors import CallNotFound

_NOT_FOUND: Final = "AUTHORIZATION_REQUEST_NOT_FOUND"
AUTHORIZATION_CODES: Final[Mapping[str, str]] = {
    "session-not-found": _NOT_FOUND,
    "call-not-found": _NOT_FOUND,
    "call-already-decided": "REQUEST_ALREADY_DECIDED",
    "call-expired": "REQUEST_EXPIRED",
}


class Decisions:
    def __init__(self, services: Services) -> None:
        self._services: Services = services

    async def input(self, request: Request) -> Response:
        post, name = await receive_post(self._services, request, "decide"), session_of(request)
        body, principal, store = Body(post.body), post.principal, self._services.store
        request_id = body.text("requestId", "REQUEST_ID_REQUIRED")
        approved = body.flag("approved", "APPROVED_REQUIRED")
        command = _decision(await store.call(principal.tenant, name, request_id), approved=approved)
        answer = await store.execute(principal.tenant, name, command, principal.actor, post.retry)
        return ok(answer, sessionId=name, requestId=request_id, approved=approved)

    async def complete(self, request: Request) -> Response:
        post = await receive_post(self._services, request, "decide")
        body, request_id = Body(post.body), request.path_params["requestId"]
        success = body.flag("success", "SUCCESS_REQUIRED")
        error, name = body.optional_text("error"), body.optional_text("sessionId")
        name = named(request, await self._asked_in(post, request_id) if name is None else name)
        command = CompleteAuthorization(request_id, success, error)
        name, answer = await execute_anchored(self._services, request, post, name, command)
        named(request, name)
        return ok(answer, requestId=request_id, success=success)

    async def _asked_in(self, post: Posted, request_id: str) -> str:
        """The session whose newest open authorization has this id; one that is closed hears that it is."""
        name = await self._services.read_models.newest_authorization(post.principal.tenant, request_id)
        if name is None:
            raise CallNotFound(f"no session asked for an authorization {request_id}")
        return name


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
