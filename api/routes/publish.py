"""Publishing: the busiest route."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.http.headers import expected_versions, header
from api.requests.bodies import answered, receive_post, session_id
from api.requests.events import BATCH_BYTES, read_events
from api.services import Services
from api.streaming.encoders import NDJSON_TYPE
from eventstore.domain.commands import Publish
from eventstore.domain.errors import Missing, SessionDeleted

EVENTS: Final = "/v1/sessions/{session_id}/events"


def routes(services: Services) -> list[BaseRoute]:
    async def publish(request: Request) -> Response:
        post = await receive_post(services, request, "publish", BATCH_BYTES)
        versions = expected_versions(request)
        kind = (header(request, "Content-Type") or "").partition(";")[0].strip().lower()
        events = read_events(post.body, lines=kind == NDJSON_TYPE)
        principal, name = post.principal, session_id(request)
        command = Publish(events, await _expected(services, principal.tenant, name, versions))
        answer = await services.store.execute(principal.tenant, name, command, principal.actor, post.retry)
        return answered(answer, 201, durability=answer.durability)

    return [Route(EVENTS, publish, methods=["POST"])]


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
