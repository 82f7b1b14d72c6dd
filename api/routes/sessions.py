"""Sessions: create, read, list, talk to, delete."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.http import query_parameters
from api.http.headers import etag, is_known
from api.requests.bodies import answered, json_answer, parse_model, receive_post, session_id
from api.requests.idempotency import create, create_unnamed
from api.requests.models import CreateBody, MessageBody
from api.services import Services
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.session import STATUSES


def routes(services: Services) -> list[BaseRoute]:
    sessions = _Sessions(services)
    one = "/v1/sessions/{session_id}"
    return [
        Route(one, sessions.snapshot, methods=["GET"]),
        Route(f"{one}/messages", sessions.send_message, methods=["POST"]),
        Route(f"{one}/steps", sessions.steps, methods=["GET"]),
        Route(f"{one}/calls", sessions.calls, methods=["GET"]),
        Route("/v1/sessions", sessions.create, methods=["POST"]),
        Route("/v1/sessions", sessions.listed, methods=["GET"]),
        Route(one, sessions.delete, methods=["DELETE"]),
    ]


class _Sessions:
    def __init__(self, services: Services) -> None:
        self._services: Services = services

    async def create(self, request: Request) -> Response:
        post = await receive_post(self._services, request, "publish")
        body = parse_model(CreateBody, post.body)
        if body.session_id is not None:
            answer = await create(self._services, request, post, body.command(body.session_id))
        else:
            answer = await create_unnamed(self._services, request, post, body.command)
        return answered(answer, 201, {"Location": f"/v1/sessions/{answer.result['session_id']}"})

    async def snapshot(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "read")
        name, models = session_id(request), self._services.read_models
        at, at_time = query_parameters.point(request, "at"), query_parameters.instant(request, "at_time")
        if at is not None and at_time is not None:
            raise InvalidRequest.parameter("at_time", "is one too many beside at; give one of them")
        if at is None and at_time is None:
            seq, body = await models.session(principal.tenant, name)
        else:
            seq, body = await models.session_at(principal.tenant, name, at=at, at_time=at_time)
        headers = {"ETag": etag(seq)}
        return Response(None, 304, headers) if is_known(request, headers["ETag"]) else json_answer(body, 200, headers)

    async def listed(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "read")
        body = await self._services.read_models.sessions(
            principal.tenant,
            status=query_parameters.word(request, "status", STATUSES),
            parked=query_parameters.flag(request, "parked"),
            agent=query_parameters.text(request, "agent"),
            limit=query_parameters.list_limit(request),
            cursor=query_parameters.text(request, "cursor"),
        )
        return json_answer(body)

    async def steps(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "read")
        name, limit, cursor = (
            session_id(request),
            query_parameters.list_limit(request),
            query_parameters.text(request, "cursor"),
        )
        return json_answer(await self._services.read_models.steps(principal.tenant, name, limit, cursor))

    async def calls(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "read")
        name, limit, cursor = (
            session_id(request),
            query_parameters.list_limit(request),
            query_parameters.text(request, "cursor"),
        )
        return json_answer(await self._services.read_models.calls(principal.tenant, name, limit, cursor))

    async def send_message(self, request: Request) -> Response:
        post = await receive_post(self._services, request, "publish")
        command = parse_model(MessageBody, post.body).command()
        principal, name = post.principal, session_id(request)
        answer = await self._services.store.execute(principal.tenant, name, command, principal.actor, post.retry)
        return answered(answer)

    async def delete(self, request: Request) -> Response:
        principal = self._services.door.enter(request, "admin")
        await self._services.store.delete(principal.tenant, session_id(request))
        return Response(status_code=204)
