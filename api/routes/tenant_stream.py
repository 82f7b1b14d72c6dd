"""Following all sessions of a tenant, in NDJSON or SSE. Stored lines go out as they are, between their session's id
and the cursor that resumes after them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from api.http import query_parameters
from api.http.headers import header
from api.services import Services
from api.streaming.chunks import gather
from api.streaming.encoders import Encoder, chosen
from api.streaming.open_responses import STREAM_HEADERS, LiveResponse
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.events import line_type
from eventstore.event_store import EventStore
from eventstore.feed.tenant_feed import NOW, FeedItem

_LAST_ID = "Last-Event-ID"
DELETED = "deleted"
"""What SSE calls a deletion, which is no event of the session."""


def routes(services: Services) -> list[BaseRoute]:
    async def follow(request: Request) -> Response:
        principal = services.door.enter(request, "read")
        encoder, types = chosen(header(request, "Accept") or ""), query_parameters.types(request)
        items = _items(services.store, principal.tenant, request, types)
        await _begun(items, request)
        if request.method == "HEAD":
            await items.aclose()
            return Response(None, 200, STREAM_HEADERS, encoder.media_type)
        return LiveResponse(principal, _frames(items, encoder), encoder, services.live, services.metrics)

    return [Route("/v1/stream", follow, methods=["GET"])]


_Items = AsyncGenerator[list[FeedItem]]


def _items(store: EventStore, tenant: str, request: Request, types: query_parameters.Types) -> _Items:
    last_id = header(request, _LAST_ID)
    if last_id == NOW:
        raise _garbled_last_id()
    cursor = query_parameters.text(request, "cursor") if last_id is None else last_id
    return cast("_Items", store.follow_tenant(tenant, cursor, None if types.all else types.wants))


async def _begun(items: _Items, request: Request) -> None:
    """Hear every refusal before the stream begins; it names the place where the cursor came from."""
    try:
        await anext(items)
    except InvalidRequest:
        if header(request, _LAST_ID) is None:
            raise
        raise _garbled_last_id() from None


def _garbled_last_id() -> InvalidRequest:
    return InvalidRequest.header(_LAST_ID, "must be the cursor of the last item that was received")


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
