"""Following all sessions of a tenant, in NDJSON or SSE. Stored lines go out as they are, between their session's id
and the cursor that resumes after them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import Response

from api.http import json_schema, query_parameters
from api.http.headers import header
from api.http.parameter_types import RequestHeader
from api.requests.descriptions import STREAM_FORMS, reply, stream_content
from api.requests.endpoint import Endpoint, Operation, Received
from api.requests.shared_parameters import TYPES
from api.services import Services
from api.streaming.chunks import gather
from api.streaming.encoders import Encoder, chosen
from api.streaming.open_responses import STREAM_HEADERS, StreamResponse
from eventstore.domain.errors import CursorTooOld, Diverged, InvalidRequest
from eventstore.domain.events import line_type
from eventstore.feed.tenant_feed import NOW, FeedItem

DELETED: Final = "deleted"
"""What SSE calls a deletion, which is no event of the session."""
CURSOR: Final = query_parameters.text(
    "cursor", "Opaque, from the feed itself; or `now`. The beginning unless given.", component="feed_cursor"
)
LAST_CURSOR: Final = RequestHeader(
    "Last-Event-ID",
    "The last cursor received. Resumes after it. Beats the query.",
    json_schema.text(),
    component="Last-Event-ID-feed",
)

_Items = AsyncGenerator[list[FeedItem]]


async def follow(services: Services, received: Received) -> Response:
    request, principal = received.request, received.principal
    encoder, types = chosen(header(request, "Accept") or ""), received.query(TYPES)
    wanted = None if types.all else types.wants
    items = cast("_Items", services.store.follow_tenant(principal.tenant, _cursor(received), wanted))
    await _begun(items, request)
    if request.method == "HEAD":
        await items.aclose()
        return Response(None, 200, STREAM_HEADERS, encoder.media_type)
    return StreamResponse(principal, _frames(items, encoder), encoder, services.live, services.metrics)


def _cursor(received: Received) -> str | None:
    last_id = header(received.request, LAST_CURSOR.name)
    if last_id == NOW:
        raise _garbled_last_id()
    return received.query(CURSOR) if last_id is None else last_id


async def _begun(items: _Items, request: Request) -> None:
    """Hear every refusal before the stream begins; it names the place where the cursor came from."""
    try:
        await anext(items)
    except InvalidRequest:
        if header(request, LAST_CURSOR.name) is None:
            raise
        raise _garbled_last_id() from None


def _garbled_last_id() -> InvalidRequest:
    return InvalidRequest.header(LAST_CURSOR.name, "must be the cursor of the last item that was received")


async def _frames(items: _Items, encoder: Encoder) -> AsyncGenerator[bytes]:
    async with aclosing(items):
        async for some in items:
            for piece in gather(_encoded(some, encoder)):
                yield piece


def _encoded(items: list[FeedItem], encoder: Encoder) -> Iterator[bytes]:
    for item in items:
        yield encoder.event(item.cursor, DELETED if item.line is None else line_type(item.line), _line(item))


def _line(item: FeedItem) -> bytes:
    """A session id and a cursor hold no character that JSON escapes."""
    session_id, cursor = item.session_id.encode(), item.cursor.encode()
    middle = b'"deleted":true' if item.line is None else item.line[1:-1]
    return b'{"session_id":"%s",%s,"cursor":"%s"}' % (session_id, middle, cursor)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/stream",
        follow,
        Operation(
            "followAll",
            "events",
            "Follow all sessions",
            f"{STREAM_FORMS} The events of each session come in order. A deletion is a line of its own.",
        ),
        scope="read",
        query=(CURSOR, TYPES),
        headers=(LAST_CURSOR,),
        answers={
            200: reply("Events as they come.", stream_content("FeedEvent", "`id` is the cursor, `event` the type."))
        },
        problems=(CursorTooOld, Diverged),
    ),
)
