"""Talking to a session: start it, and send it another message."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from api.headers import idempotency_key, retry_sources
from api.services import Services
from api.sessions import GENERATIONS, PREFIX
from api.wire import Posted, receive_post
from api.zhin.answers import named, ok, session_of
from api.zhin.bodies import Body
from api.zhin.events import TOKEN_PREFIX
from eventstore.batch import Answer
from eventstore.domain import ids
from eventstore.domain.commands import CreateSession, SendMessage
from eventstore.domain.errors import SessionExists


class Sessions:
    def __init__(self, services: Services) -> None:
        self._services: Services = services

    async def start(self, request: Request) -> Response:
        post = await receive_post(self._services, request, "publish")
        message = Body(post.body).text("message", "MESSAGE_REQUIRED")
        answer = await self._create(post, _new_ids(request, post), message)
        named(request, answer.result["session_id"])
        return _session(answer)

    async def _create(self, post: Posted, names: Iterator[str], message: str) -> Answer:
        principal = post.principal
        for name in names:
            command = CreateSession(name, message=message)
            try:
                return await self._services.store.execute(principal.tenant, name, command, principal.actor, post.retry)
            except SessionExists:
                continue
        raise SessionExists("this Idempotency-Key has made many sessions over the days; use a new key")

    async def send(self, request: Request) -> Response:
        post, name = await receive_post(self._services, request, "publish"), session_of(request)
        body, principal = Body(post.body), post.principal
        token = body.text("continuationToken", "CONTINUATION_TOKEN_REQUIRED")
        message = body.text("message", "MESSAGE_REQUIRED")
        # Without the prefix it is none of ours: as stale as any other that is not the newest.
        plain = token.removeprefix(TOKEN_PREFIX) if token.startswith(TOKEN_PREFIX) else ""
        command = SendMessage(plain, message)
        return _session(
            await self._services.store.execute(principal.tenant, name, command, principal.actor, post.retry)
        )


def _new_ids(request: Request, post: Posted) -> Iterator[str]:
    """The id to make, and others for the case that it is taken: with an Idempotency-Key they follow from it, so that
    a retry finds what the first request made."""
    key = idempotency_key(request)
    if key is None:
        return iter([ids.random_id(PREFIX)])
    sources = retry_sources(request, post.principal, key)
    return (ids.derived_id(PREFIX, *sources, str(generation)) for generation in range(GENERATIONS))


def _session(answer: Answer) -> Response:
    result = answer.result
    token = TOKEN_PREFIX + result["continuation_token"]
    return ok(answer, sessionId=result["session_id"], continuationToken=token)
