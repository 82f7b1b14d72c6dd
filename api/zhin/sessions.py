"""Talking to a session: start it, and send it another message."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from api.requests.bodies import receive_post
from api.requests.idempotency import create_unnamed
from api.services import Services
from api.zhin.answers import named, ok, session_of
from api.zhin.bodies import Body
from api.zhin.events import TOKEN_PREFIX
from eventstore.commit.batch import Answer
from eventstore.domain.commands import CreateSession, SendMessage


class Sessions:
    def __init__(self, services: Services) -> None:
        self._services: Services = services

    async def start(self, request: Request) -> Response:
        post = await receive_post(self._services, request, "publish")
        message = Body(post.body).text("message", "MESSAGE_REQUIRED")
        answer = await create_unnamed(self._services, request, post, partial(CreateSession, message=message))
        named(request, answer.result["session_id"])
        return _session(answer)

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


def _session(answer: Answer) -> Response:
    result = answer.result
    token = TOKEN_PREFIX + result["continuation_token"]
    return ok(answer, sessionId=result["session_id"], continuationToken=token)
