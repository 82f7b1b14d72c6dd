"""Sessions: create, list, read, delete, talk to."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from api.http import query_parameters
from api.http.headers import IF_NONE_MATCH, etag, is_known
from api.http.json_schema import ref
from api.requests import idempotency
from api.requests.bodies import answered, json_answer, parse_model
from api.requests.descriptions import gives, json_content, reply
from api.requests.endpoint import Endpoint, Operation, Received, RequestBody
from api.requests.models import CreateBody, MessageBody
from api.requests.shared_parameters import AGENT, CURSOR, LIMIT
from api.services import Services
from eventstore.domain import errors
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.session import STATUSES

SESSIONS: Final = "/v1/sessions"
ONE: Final = f"{SESSIONS}/{{session_id}}"
STATUS: Final = query_parameters.word(
    "status", "Only sessions of this status.", STATUSES, None, schema=ref("SessionStatus"), component="session_status"
)
PARKED: Final = query_parameters.flag("parked", "Only sessions in which a call waits, or none does.")
AT: Final = query_parameters.position("at", "As of this seq.")
AT_TIME: Final = query_parameters.instant("at_time", "As of this time.")


async def create(services: Services, received: Received) -> Response:
    body = parse_model(CreateBody, received.body)
    if body.session_id is not None:
        answer = await idempotency.create(services, received, body.command(body.session_id))
    else:
        answer = await idempotency.create_unnamed(services, received, body.command)
    return answered(answer, 201, {"Location": f"/v1/sessions/{answer.result['session_id']}"})


async def listed(services: Services, received: Received) -> Response:
    body = await services.read_models.sessions(
        received.principal.tenant,
        status=received.query(STATUS),
        parked=received.query(PARKED),
        agent=received.query(AGENT),
        limit=received.query(LIMIT),
        cursor=received.query(CURSOR),
    )
    return json_answer(body)


async def snapshot(services: Services, received: Received) -> Response:
    tenant, name, models = received.principal.tenant, received.session_id, services.read_models
    at, at_time = received.query(AT), received.query(AT_TIME)
    if at is not None and at_time is not None:
        raise InvalidRequest.parameter("at_time", "is one too many beside at; give one of them")
    if at is None and at_time is None:
        seq, body = await models.session(tenant, name)
    else:
        seq, body = await models.session_at(tenant, name, at=at, at_time=at_time)
    headers = {"ETag": etag(seq)}
    known = is_known(received.request, headers["ETag"])
    return Response(None, 304, headers) if known else json_answer(body, 200, headers)


async def delete(services: Services, received: Received) -> Response:
    await services.store.delete(received.principal.tenant, received.session_id)
    return Response(status_code=204)


async def steps(services: Services, received: Received) -> Response:
    tenant, name = received.principal.tenant, received.session_id
    limit, cursor = received.query(LIMIT), received.query(CURSOR)
    return json_answer(await services.read_models.steps(tenant, name, limit, cursor))


async def calls(services: Services, received: Received) -> Response:
    tenant, name = received.principal.tenant, received.session_id
    limit, cursor = received.query(LIMIT), received.query(CURSOR)
    return json_answer(await services.read_models.calls(tenant, name, limit, cursor))


async def send_message(services: Services, received: Received) -> Response:
    command = parse_model(MessageBody, received.body).command()
    principal, name = received.principal, received.session_id
    answer = await services.store.execute(principal.tenant, name, command, principal.actor, received.retry)
    return answered(answer)


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        SESSIONS,
        create,
        Operation("createSession", "sessions", "Create a session"),
        scope="publish",
        body=RequestBody(json_content(ref("CreateSession"))),
        answers={201: gives("CreatedSession", "Created.", "Location")},
        problems=(errors.SessionExists, errors.SessionDeleted),
    ),
    Endpoint(
        "GET",
        SESSIONS,
        listed,
        Operation("listSessions", "sessions", "List sessions, newest activity first"),
        scope="read",
        query=(STATUS, PARKED, AGENT, LIMIT, CURSOR),
        answers={200: gives("SessionList", "One page.")},
    ),
    Endpoint(
        "GET",
        ONE,
        snapshot,
        Operation(
            "getSession",
            "sessions",
            "Read a session, as it is or as it was",
            "Includes every event acknowledged before the request.",
        ),
        scope="read",
        query=(AT, AT_TIME),
        headers=(IF_NONE_MATCH,),
        answers={
            200: gives("SessionSnapshot", "The session.", "ETag"),
            304: reply("Still the version that is known.", None, "ETag"),
        },
        problems=(errors.NoSuchPoint,),
    ),
    Endpoint(
        "DELETE",
        ONE,
        delete,
        Operation("deleteSession", "sessions", "Delete a session for good", "Its id is never used again."),
        scope="admin",
        answers={204: reply("Deleted.")},
    ),
    Endpoint(
        "GET",
        f"{ONE}/steps",
        steps,
        Operation("listSteps", "sessions", "List all steps of a session, oldest first"),
        scope="read",
        query=(LIMIT, CURSOR),
        answers={200: gives("StepPage", "One page.")},
    ),
    Endpoint(
        "GET",
        f"{ONE}/calls",
        calls,
        Operation("listCallsOfSession", "sessions", "List all calls of a session, oldest first"),
        scope="read",
        query=(LIMIT, CURSOR),
        answers={200: gives("CallPage", "One page.")},
    ),
    Endpoint(
        "POST",
        f"{ONE}/messages",
        send_message,
        Operation(
            "sendMessage",
            "sessions",
            "Send a message to the agent",
            "Taken while no turn is open, or while a call waits; it decides nothing.",
        ),
        scope="publish",
        body=RequestBody(json_content(ref("SendMessage"))),
        answers={200: gives("SentMessage", "Received; the token is the new one.")},
        problems=(errors.SessionTerminal, errors.ContinuationTokenStale, errors.SessionBusy),
    ),
)
