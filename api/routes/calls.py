"""Calls: look, wait, decide, execute."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Protocol, cast

from starlette.responses import Response

from api.http import query_parameters
from api.http.json_schema import ref
from api.requests.bodies import answered, encode, json_answer, parse_model
from api.requests.descriptions import gives, json_content
from api.requests.endpoint import Endpoint, Operation, Problem, Received, RequestBody
from api.requests.models import AuthorizationBody, ClaimBody, DecideBody, ReleaseBody, ResultBody, SettleBody
from api.requests.shared_parameters import AGENT, CURSOR, LIMIT
from api.services import Services
from api.streaming.open_responses import StreamClosed
from eventstore.domain import call as calls
from eventstore.domain import errors
from eventstore.domain.call import PENDING, STATUSES, Call
from eventstore.domain.commands import CallCommand
from eventstore.domain.events import CALL_CLOSES, line_type, parse_line
from eventstore.event_store import EventStore
from eventstore.log.followed_session import Chunk

ONE: Final = "/v1/sessions/{session_id}/calls/{interrupt_id}"
STATUS: Final = query_parameters.word(
    "status", "Only calls of this status.", STATUSES, PENDING, schema=ref("CallStatus"), component="call_status"
)
TOOL_NAME: Final = query_parameters.text("tool_name", "Only calls of this tool.")
WAIT_MS: Final = query_parameters.whole(
    "wait_ms",
    f"Holds the answer until the call is no longer {PENDING}, or this time is up.",
    least=0,
    most=60_000,
    default=0,
)


async def inbox(services: Services, received: Received) -> Response:
    body = await services.read_models.inbox(
        received.principal.tenant,
        status=received.query(STATUS),
        tool_name=received.query(TOOL_NAME),
        agent=received.query(AGENT),
        limit=received.query(LIMIT),
        cursor=received.query(CURSOR),
    )
    return json_answer(body)


async def one(services: Services, received: Received) -> Response:
    name, wait_ms = received.session_id, received.query(WAIT_MS)
    place = (received.principal.tenant, name, received.interrupt_id)
    call = await services.store.call(*place)
    if wait_ms and call.status == PENDING:
        call = await _settled(services, received, place, wait_ms / 1000)
    return json_answer(encode(calls.render(call, name)))


async def _settled(services: Services, received: Received, place: tuple[str, str, str], wait_s: float) -> Call:
    """The call once it is decided or expired, or when the time is up; at once when the server stops. Raises
    `Unauthorized` as soon as the key is no good any more."""
    found: Call | None = None
    with contextlib.suppress(TimeoutError, StreamClosed):
        async with services.live.held(received.principal, received.request.receive), asyncio.timeout(wait_s):
            found = await _closed(services.store, *place)
    received.check_key_again(services.door)
    return found or await services.store.call(*place)


async def _closed(store: EventStore, tenant: str, name: str, wanted: str) -> Call | None:
    """The call, once it is no longer pending; None if its session is over before that."""
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


async def state_snapshot(services: Services, received: Received) -> Response:
    call = await services.store.call(received.principal.tenant, received.session_id, received.interrupt_id)
    return json_answer(encode(calls.snapshot_document(call)))


class _CallBody(Protocol):
    def command(self, interrupt_id: str) -> CallCommand: ...


async def act(services: Services, received: Received, *, model: type[Any]) -> Response:
    """Move the call on, as a body of this model says."""
    body: _CallBody = parse_model(model, received.body)
    command = body.command(received.interrupt_id)
    principal, name = received.principal, received.session_id
    answer = await services.store.execute(principal.tenant, name, command, principal.actor, received.retry)
    return answered(answer)


def _act(
    path: str,
    model: type[Any],
    operation: Operation,
    *,
    scope: str,
    body: str,
    problems: tuple[Problem, ...],
    answer: str = "Outcome",
) -> Endpoint:
    """A route that moves one call on. `body` and `answer` are the names of their schemas."""
    return Endpoint(
        "POST",
        path,
        partial(act, model=model),
        operation,
        scope=scope,
        body=RequestBody(json_content(ref(body))),
        answers={200: gives(answer, "Done, or done before.")},
        problems=(errors.InvalidSnapshot, *problems),
    )


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/calls",
        inbox,
        Operation("listCalls", "calls", "The inbox: calls of all sessions, nearest deadline first"),
        scope="read",
        query=(STATUS, TOOL_NAME, AGENT, LIMIT, CURSOR),
        answers={200: gives("Inbox", "One page.")},
    ),
    Endpoint(
        "GET",
        ONE,
        one,
        Operation("getCall", "calls", "Read a call, or wait for its decision"),
        scope="read",
        query=(WAIT_MS,),
        answers={200: gives("Call", "The call.")},
        problems=(errors.InvalidSnapshot,),
    ),
    Endpoint(
        "GET",
        f"{ONE}/state_snapshot",
        state_snapshot,
        Operation("getStateSnapshot", "calls", "Read the version 2 document of a call"),
        scope="read",
        answers={200: gives("StateSnapshotV2", "The document.")},
        problems=(errors.InvalidSnapshot,),
    ),
    _act(
        f"{ONE}/decision",
        DecideBody,
        Operation(
            "decide",
            "calls",
            "Approve, reject or answer a call",
            "Exactly one decision counts, for ever. The decider is the key, or its `Layby-Actor`.",
        ),
        scope="decide",
        body="Decide",
        problems=(errors.RunMismatch, errors.CallAlreadyDecided, errors.CallExpired, errors.StaleView),
    ),
    _act(
        "/v1/sessions/{session_id}/authorizations/{interrupt_id}/complete",
        AuthorizationBody,
        Operation("completeAuthorization", "calls", "Tell how an authorization went"),
        scope="decide",
        body="CompleteAuthorization",
        problems=(errors.CallAlreadyDecided, errors.CallExpired),
    ),
    _act(
        f"{ONE}/claim",
        ClaimBody,
        Operation("claim", "calls", "Claim an approved call, to run it"),
        scope="execute",
        body="Claim",
        answer="Claimed",
        problems=(errors.NotApproved, errors.ResultAlreadyRecorded, errors.AlreadyClaimed, errors.OutcomeUnknown),
    ),
    _act(
        f"{ONE}/release",
        ReleaseBody,
        Operation("release", "calls", "Give a claimed call back"),
        scope="execute",
        body="Release",
        problems=(errors.NotApproved, errors.ResultAlreadyRecorded, errors.Fenced),
    ),
    _act(
        f"{ONE}/result",
        ResultBody,
        Operation("recordResult", "calls", "Record the result"),
        scope="execute",
        body="Result",
        problems=(errors.NotApproved, errors.ResultAlreadyRecorded, errors.Fenced),
    ),
    _act(
        f"{ONE}/settle",
        SettleBody,
        Operation("settle", "calls", "Settle a call whose outcome nobody knows"),
        scope="admin",
        body="Settle",
        problems=(errors.NotIndeterminate,),
    ),
)
