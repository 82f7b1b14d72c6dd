"""The events of a session from an index on. The stream closes as soon as it is caught up while the session rests."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, cast

from starlette.responses import Response

from api.http import query_parameters
from api.http.json_schema import integer
from api.http.parameter_types import QueryParameter
from api.requests.descriptions import lines, reply
from api.requests.endpoint import Endpoint, Operation, Received
from api.routes.session_stream import END
from api.services import Services
from api.streaming.chunks import gather
from api.streaming.encoders import NDJSON_TYPE, Ndjson
from api.streaming.open_responses import STREAM_HEADERS, StreamResponse
from api.zhin.answers import BASE, SESSION_HEADER, BadRequest, session_of
from api.zhin.events import translate
from eventstore.domain.errors import SessionDeleted, SessionNotFound
from eventstore.domain.session import RUNNING
from eventstore.event_store import EventStore
from eventstore.log.followed_session import Chunk

_INDEX = re.compile(r"[0-9]+", re.ASCII)


class _Lines(Ndjson):
    media_type: str = f"{NDJSON_TYPE}; charset=utf-8"


_LINES: Final = _Lines()


def _start_index(value: str) -> int:
    if not _INDEX.fullmatch(value):
        raise BadRequest("INVALID_START_INDEX")
    return query_parameters.seq(value)


START_INDEX: Final = QueryParameter(
    "startIndex", "The 0-based index of the first event.", integer(minimum=0, default=0), _start_index, 0
)


async def stream(services: Services, received: Received) -> Response:
    name, start = session_of(received), received.query(START_INDEX) + 1
    chunks = _chunks(services.store, received.principal.tenant, name, start)
    first = await anext(chunks)
    if received.request.method == "HEAD":
        await chunks.aclose()
        return Response(None, 200, STREAM_HEADERS, _LINES.media_type)
    return StreamResponse(received.principal, _frames(first, chunks), _LINES, services.live, services.metrics)


async def _chunks(store: EventStore, tenant: str, name: str, start: int) -> AsyncGenerator[list[bytes]]:
    """The lines from `start` on: what is stored, then what comes, as long as the session runs. The first come at once,
    and may be none.

    Raises `SessionNotFound`, `SessionDeleted`, `StoreUnavailable`.
    """
    last_seq = (await store.page(tenant, name, END, 0)).last_seq
    async with aclosing(_follow(store, tenant, name, min(start, last_seq + 1))) as chunks:
        async for chunk in chunks:
            yield chunk.lines[max(0, start - chunk.first) :]
            if chunk.end:
                return
            now = await store.page(tenant, name, END, 0)
            if now.status != RUNNING and now.last_seq < chunk.next_from:
                return


def _follow(store: EventStore, tenant: str, name: str, start: int) -> AsyncGenerator[Chunk]:
    return cast("AsyncGenerator[Chunk]", store.follow(tenant, name, start))


async def _frames(first: list[bytes], chunks: AsyncGenerator[list[bytes]]) -> AsyncGenerator[bytes]:
    async with aclosing(chunks):
        for piece in gather(map(translate, first)):
            yield piece
        async for lines in chunks:
            for piece in gather(map(translate, lines)):
                yield piece


STREAM: Final = Endpoint(
    "GET",
    f"{BASE}/session/{{id}}/stream",
    stream,
    Operation(
        "zhinStream",
        "zhin",
        "Read the events from an index",
        "Closes as soon as it is caught up and the session is waiting or ended.",
    ),
    scope="read",
    query=(START_INDEX,),
    answers={200: reply("Events.", {_LINES.media_type: lines("ZhinEvent", "One event a line.")}, SESSION_HEADER)},
    problems=(SessionNotFound, SessionDeleted),
)
