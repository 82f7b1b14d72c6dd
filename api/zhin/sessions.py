"""Talking to a session: start it, and send it another message."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from api.http.json_schema import ref
from api.requests.descriptions import gives, json_content
from api.requests.endpoint import Endpoint, Operation, Received, RequestBody
from api.requests.idempotency import create_unnamed
from api.services import Services
from api.zhin.answers import BASE, SESSION_HEADER, named, ok, session_of
from api.zhin.bodies import Body
from api.zhin.events import TOKEN_PREFIX
from eventstore.commit.batch import Answer
from eventstore.domain.commands import CreateSession, SendMessage
from eventstore.domain.errors import (
    ContinuationTokenStale,
    SessionBusy,
    SessionDeleted,
    SessionNotFound,
    SessionTerminal,
)


async def start(services: Services, received: Received) -> Response:
    message = Body(received.body).text("message", "MESSAGE_REQUIRED")
    answer = await create_unnamed(services, received, partial(CreateSession, message=message))
    named(received.request, answer.result["session_id"])
    return _session(answer)


async def send(services: Services, received: Received) -> Response:
    name, principal = session_of(received), received.principal
    body = Body(received.body)
    token = body.text("continuationToken", "CONTINUATION_TOKEN_REQUIRED")
    message = body.text("message", "MESSAGE_REQUIRED")
    # Without the prefix it is none of ours: as stale as any other that is not the newest.
    command = SendMessage(token.removeprefix(TOKEN_PREFIX) if token.startswith(TOKEN_PREFIX) else "", message)
    return _session(await services.store.execute(principal.tenant, name, command, principal.actor, received.retry))


def _session(answer: Answer) -> Response:
    result = answer.result
    token = TOKEN_PREFIX + result["continuation_token"]
    return ok(answer, sessionId=result["session_id"], continuationToken=token)


START: Final = Endpoint(
    "POST",
    f"{BASE}/session",
    start,
    Operation("zhinStart", "zhin", "Start a session with a message"),
    scope="publish",
    body=RequestBody(json_content(ref("ZhinStart"))),
    answers={200: gives("ZhinSession", "Started.", SESSION_HEADER)},
)
CONTINUE: Final = Endpoint(
    "POST",
    f"{BASE}/session/{{id}}",
    send,
    Operation("zhinContinue", "zhin", "Send a message"),
    scope="publish",
    body=RequestBody(json_content(ref("ZhinContinue"))),
    answers={200: gives("ZhinSession", "Received.", SESSION_HEADER)},
    problems=(SessionTerminal, SessionNotFound, ContinuationTokenStale, SessionBusy, SessionDeleted),
)
