"""Publishing: the busiest route."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from api.http.headers import IF_MATCH, expected_versions, header
from api.http.json_schema import ref
from api.requests.bodies import JSON_TYPE, answered
from api.requests.descriptions import gives, lines
from api.requests.endpoint import Endpoint, Operation, Received, RequestBody
from api.requests.events import BATCH_BYTES, BATCH_EVENTS, read_events
from api.services import Services
from api.streaming.encoders import NDJSON_TYPE
from eventstore.domain import errors
from eventstore.domain.commands import Publish
from eventstore.domain.errors import Missing, SessionDeleted
from eventstore.domain.events import EVENT_BYTES

EVENTS: Final = "/v1/sessions/{session_id}/events"


async def publish(services: Services, received: Received) -> Response:
    versions = expected_versions(received.request)
    kind = (header(received.request, "Content-Type") or "").partition(";")[0].strip().lower()
    events = read_events(received.body, lines=kind == NDJSON_TYPE)
    principal, name = received.principal, received.session_id
    command = Publish(events, await _expected(services, principal.tenant, name, versions))
    answer = await services.store.execute(principal.tenant, name, command, principal.actor, received.retry)
    return answered(answer, 201, durability=answer.durability)


async def _expected(services: Services, tenant: str, name: str, versions: list[int] | None) -> int | None:
    """The one version to demand. Of several the one that the session is at; the commit compares it again."""
    if not versions:
        return None
    if len(versions) == 1:
        return versions[0]
    try:
        seq = (await services.store.head(tenant, name)).session.seq
    except (Missing, SessionDeleted):  # the command itself will say so, or a retry hear its first answer
        return versions[0]
    return seq if seq in versions else versions[0]


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        EVENTS,
        publish,
        Operation(
            "publishEvents",
            "events",
            "Append events, all or none",
            f"An event has at most {EVENT_BYTES >> 10} KiB, a batch at most {BATCH_EVENTS:,} events and"
            f" {BATCH_BYTES >> 20} MiB.",
        ),
        scope="publish",
        headers=(IF_MATCH,),
        body=RequestBody(
            {
                JSON_TYPE: {"schema": {"oneOf": [ref("PublishEvent"), ref("PublishBatch")]}},
                NDJSON_TYPE: lines("PublishEvent", "One event a line."),
            },
            limit=BATCH_BYTES,
        ),
        answers={201: gives("PublishAnswer", "Recorded, with the durability that is told.")},
        problems=(
            errors.IllegalTransition,
            errors.ReservedType,
            errors.InterruptExists,
            errors.TooManyCalls,
            errors.InvalidSnapshot,
            errors.VersionMismatch,
        ),
    ),
)
