"""Calls: look, wait, decide, execute."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Protocol, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.http import query_parameters
from api.http.authentication import Principal
from api.http.router import Endpoint
from api.requests.bodies import answered, encode, interrupt_id, json_answer, parse_model, receive_post, session_id
from api.requests.models import AuthorizationBody, ClaimBody, DecideBody, ReleaseBody, ResultBody, SettleBody
from api.services import Services
from api.streaming.open_responses import Cut
from eventstore.domain import call as calls
from eventstore.domain.call import PENDING, STATUSES, Call
from eventstore.domain.commands import CallCommand
from eventstore.domain.events import CALL_CLOSES, line_type, parse_line
from eventstore.log.followed_session import Chunk

LONGEST_WAIT_MS: Final = 60_000
ONE: Final = "/v1/sessions/{session_id}/calls/{interrupt_id}"


class _CallBody(Protocol):
    def command(self, interrupt_id: str) -> CallCommand: ...


def routes(services: Services) -> list[BaseRoute]:
    look = _Look(services)
    authorization = "/v1/sessions/{session_id}/authorizations/{interrupt_id}/complete"
    return [
        Route(ONE, look.one, methods=["GET"]),
        Route(f"{ONE}/state_snapshot", look.state_snapshot, methods=["GET"]),
        Route("/v1/calls", look.inbox, methods=["GET"]),
        Route(f"{ONE}/decision", _act(services, "decide", DecideBody), methods=["POST"]),
        Route(authorization, _act(services, "decide", AuthorizationBody), methods=["POST"]),
        Route(f"{ONE}/claim", _act(services, "execute", ClaimBody), methods=["POST"]),
        Route(f"{ONE}/release", _act(services, "execute", ReleaseBody), methods=["POST"]),
        Route(f"{ONE}/result", _act(services, "execute", ResultBody), methods=["POST"]),
        Route(f"{ONE}/settle", _act(services, "admin", SettleBody), methods=["POST"]),
    ]


def _act(services: Services, scope: str, model: type[Any]) -> Endpoint:
    """The endpoint that moves one call on, as a body of this model says."""

    async def endpoint(request: Request) -> Response:
        post = await receive_post(services, request, scope)
        body: _CallBody = parse_model(model, post.body)
        command = body.command(interrupt_id(request))
        principal, name = post.principal, session_id(request)
        answer = await services.store.execute(principal.tenant, name, command, principal.actor, post.retry)
        return answered(answer)

    return endpoint


class _Look:
    def __init__(self, services: Services) -> None:
        self._services: Services = services

    async def one(self, request: Request) -> Response:
        principal, name = self._services.door.enter(request, "read"), session_id(request)
        wait_ms = query_parameters.whole(request, "wait_ms", 0, LONGEST_WAIT_MS)
        place = (principal.tenant, name, interrupt_id(request))
        call = await self._services.store.call(*place)
        if wait_ms and call.status == PENDING:
            call = await self._settled(request, principal, place, wait_ms / 1000)
        return json_answer(encode(calls.render(call, name)))

    async def _settled(
        self, request: Request, principal: Principal, place: tuple[str, str, str], wait_s: float
    ) -> Call:
        """The call once it is decided or expired, or when the time is up; at once when the server stops. Raises
        `Unauthorized` as soon as the key is no good any more."""
        found: Call | None = None
        with contextlib.suppress(TimeoutError, Cut):
            async with self._services.live.held(principal, request.receive), asyncio.timeout(wait_s):
                found = await self._closed(*place)
        self._services.door.enter(request, "read")
        return found or await self._services.store.call(*place)

    async def _closed(self, tenant: str, name: str, wanted: str) -> Call | None:
        """The call, once it is no longer pending; None if its session is over before that."""
        store = self._services.store
        chunks = cast("AsyncGenerator[Chunk]", store.follow(tenant, name, 0))
        async with aclosing(chunks):
            await anext(chunks)  # follow first, read then: what is decided in between comes as a line
            call = await store.call(tenant, name, wanted)
            if call.status != PENDING:
                return call
            async for chunk in chunks:
                for line in chunk.lines:
                    if line_type(line) in CALL_CLOSES and (event := parse_line(line)).data["interrupt_id"] == wanted:
                        return calls.apply(call, event)
        return None

    async def state_snapshot(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "read")
        call = await self._services.store.call(principal.tenant, session_id(request), interrupt_id(request))
        return json_answer(encode(calls.snapshot_document(call)))

    async def inbox(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "read")
        body = await self._services.read_models.inbox(
            principal.tenant,
            status=query_parameters.word(request, "status", STATUSES) or PENDING,
            tool_name=query_parameters.text(request, "tool_name"),
            agent=query_parameters.text(request, "agent"),
            limit=query_parameters.list_limit(request),
            cursor=query_parameters.text(request, "cursor"),
        )
        return json_answer(body)
