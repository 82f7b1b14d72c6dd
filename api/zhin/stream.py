"""The events of a session from an index on. The stream closes as soon as it is caught up while the session rests."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api import query
from api.encoders import NDJSON_TYPE, Ndjson
from api.live import STREAM_HEADERS, LiveResponse
from api.routing import Endpoint
from api.services import Services
from api.stream import PIECE_BYTES
from api.zhin.answers import BadRequest, session_of
from api.zhin.events import translate
from eventstore.domain.session import RUNNING
from eventstore.eventstore import EventStore
from eventstore.store import Page
from eventstore.tail import POLL_S

PAGE_LINES: Final = 200
_INDEX = re.compile(r"[0-9]{1,15}", re.ASCII)


class _Lines(Ndjson):
    media_type: str = f"{NDJSON_TYPE}; charset=utf-8"


_LINES: Final = _Lines()


def endpoint(services: Services) -> Endpoint:
    async def stream(request: Request) -> Response:
        principal = services.door.enter(request, "read")
        name, start = session_of(request), _start_index(request) + 1
        pages = _pages(services.store, principal.tenant, name, start)
        first = await anext(pages)
        if request.method == "HEAD":
            await pages.aclose()
            return Response(None, 200, STREAM_HEADERS, _LINES.media_type)
        return LiveResponse(_frames(first, pages), _LINES, services.live, services.metrics)

    return stream


def _start_index(request: Request) -> int:
    value = query.text(request, "startIndex")
    if value is not None and not _INDEX.fullmatch(value):
        raise BadRequest("INVALID_START_INDEX")
    return int(value or 0)


async def _pages(store: EventStore, tenant: str, name: str, start: int) -> AsyncGenerator[Page]:
    """What is stored, then what comes, as long as the session runs. The first page comes at once and may be empty.

    Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`.
    """
    with store.hub.watch(store.session_keys(tenant, name)) as topic:
        while True:
            seen, known = topic.version, topic.last_seq
            page = await store.page(tenant, name, start, PAGE_LINES)
            topic.learned(page.last_seq, known, ended=page.ended)
            yield page
            start += len(page.lines)
            if start <= page.last_seq:
                continue
            if page.status != RUNNING:
                return
            if topic.last_seq <= page.last_seq and topic.version == seen:
                await topic.changed(POLL_S)


async def _frames(first: Page, pages: AsyncGenerator[Page]) -> AsyncGenerator[bytes]:
    async with aclosing(pages):
        for piece in _pieces(first):
            yield piece
        async for page in pages:
            for piece in _pieces(page):
                yield piece


def _pieces(page: Page) -> Iterator[bytes]:
    piece = bytearray()
    for line in page.lines:
        piece += translate(line)
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
