"""Following one session: history, then live, over one iterator, in NDJSON or SSE."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import Response

from api.http import json_schema, query_parameters
from api.http.headers import header
from api.http.parameter_types import QueryParameter, RequestHeader
from api.http.query_parameters import Types
from api.requests.descriptions import STREAM_FORMS, reply, stream_content
from api.requests.endpoint import Endpoint, Operation, Received
from api.requests.shared_parameters import TYPES
from api.services import Services
from api.streaming.chunks import gather
from api.streaming.encoders import SSE, Encoder, chosen
from api.streaming.open_responses import STREAM_HEADERS, StreamResponse
from api.transport.response_writer import StreamWriter
from eventstore.domain.errors import InvalidRequest
from eventstore.domain.events import SESSION_ENDS, line_type
from eventstore.log.followed_session import Chunk, Deliver

END: Final = 0
"""To the store, the place after the last event."""
_POINT = re.compile(r"now|-?[1-9][0-9]*", re.ASCII)
_LAST_ID = re.compile(r"[0-9]+", re.ASCII)
_PARKED: Final = b'"data":{"parked":true,'
ENDS: Final = ("idle", "parked", "terminal")
"""What a reader may wait for: the stream ends with the event that brings it about."""
WHOLE_BYTES: Final = 128 * 1024
"""A chunk of so much is sent in one piece."""


def _start(value: str) -> int:
    if not _POINT.fullmatch(value):
        raise ValueError("must be a seq, a negative number to count from the end, or now")
    if value == "now":
        return END
    seq = query_parameters.seq(value.removeprefix("-"))
    return -seq if value.startswith("-") else seq


FROM: Final = QueryParameter(
    "from",
    "A seq; negative counts from the end; `now` is what comes next.",
    json_schema.text(pattern=f"^({_POINT.pattern})$", default="1"),
    _start,
    1,
)
UNTIL: Final = query_parameters.word("until", "Ends the stream after the event that reaches this.", ENDS, None)
LAST_EVENT_ID: Final = RequestHeader(
    "Last-Event-ID",
    "The last seq. Resumes after it. Beats the query.",
    json_schema.text(pattern=f"^{_LAST_ID.pattern}$"),
)


async def stream(services: Services, received: Received) -> Response:
    request, principal, name = received.request, received.principal, received.session_id
    encoder, last_id = chosen(header(request, "Accept") or ""), last_event_id(request)
    asked = received.query(FROM)  # which must make sense, even where it does not count
    start = asked if last_id is None else last_id + 1
    view = _View(encoder, received.query(TYPES), received.query(UNTIL))
    outlet = StreamWriter(request.scope)
    follow = services.store.follow(principal.tenant, name, start, view.deliver(outlet))
    chunks = cast("AsyncGenerator[Chunk]", follow)
    first = await anext(chunks)
    if encoder is SSE and last_id is not None and first.end == "terminal" and not first.lines:
        await chunks.aclose()
        return Response(status_code=204)  # the one word that stops an EventSource
    if request.method == "HEAD":
        await chunks.aclose()
        return Response(None, 200, STREAM_HEADERS, encoder.media_type)
    frames = _frames(first, chunks, view)
    return StreamResponse(principal, frames, encoder, services.live, services.metrics, outlet)


def last_event_id(request: Request) -> int | None:
    value = header(request, LAST_EVENT_ID.name)
    if value is not None and not _LAST_ID.fullmatch(value):
        raise InvalidRequest.header(LAST_EVENT_ID.name, "must be the seq of the last event that was received")
    return None if value is None else query_parameters.seq(value)


class _View:
    """What of a session one reader is shown, and how. `over` becomes true with the event that the reader waits for,
    or with the end of the session."""

    def __init__(self, encoder: Encoder, types: Types, until: str | None) -> None:
        self.over: bool = False
        self._encoder: Encoder = encoder
        self._types: Types = types
        self._until: str | None = until

    def pieces(self, chunk: Chunk) -> Iterable[bytes]:
        """The chunk encoded, in pieces worth sending. Readers who are shown all of it share them."""
        if self._until or not self._types.all or chunk.end:
            return gather(self._show(chunk))
        if chunk.encoded is None:
            return self._whole(chunk)
        if (pieces := chunk.encoded.get(self._encoder)) is None:
            pieces = chunk.encoded[self._encoder] = list(self._whole(chunk))
        return pieces

    def _whole(self, chunk: Chunk) -> Iterable[bytes]:
        """All of the chunk: of its lines as they are one piece, if that is small enough."""
        if chunk.lines and sum(map(len, chunk.lines)) <= WHOLE_BYTES and (piece := self._encoder.plain(chunk.lines)):
            return [piece]
        return gather(self._show(chunk))

    def deliver(self, outlet: StreamWriter) -> Deliver | None:
        """What sends the reader a chunk at once, past everything that may wait; not where one may end the stream."""
        return None if self._until else lambda chunk: outlet.push(list(self.pieces(chunk)))

    def _show(self, chunk: Chunk) -> Iterator[bytes]:
        """Event by event; the last part of a stream that is over is its end."""
        seq, end = chunk.first, chunk.end
        for line in chunk.lines:
            kind = line_type(line)
            if self._types.wants(kind):
                yield self._encoder.event(seq, kind, line)
            seq += 1
            if self._ends(kind, line):
                end = self._until
                break
        if end:
            self.over = True
            yield self._encoder.end(end, seq)

    def _ends(self, kind: str, line: bytes) -> bool:
        """Whether the event is what the reader waits for."""
        match self._until:
            case "terminal":
                return kind in SESSION_ENDS
            case "idle" | "parked":
                return kind == "session.waiting" and (_PARKED in line) == (self._until == "parked")
            case _:
                return False


async def _frames(first: Chunk, chunks: AsyncGenerator[Chunk], view: _View) -> AsyncGenerator[bytes]:
    async with aclosing(chunks):
        chunk = first
        while True:
            for piece in view.pieces(chunk):
                yield piece
            if view.over:
                return
            chunk = await anext(chunks)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/sessions/{session_id}/stream",
        stream,
        Operation(
            "followSession",
            "events",
            "Follow a session live, from any point",
            f"{STREAM_FORMS} A stream that ended by rule says so last; one that was merely cut does not.",
        ),
        scope="read",
        query=(FROM, TYPES, UNTIL),
        headers=(LAST_EVENT_ID,),
        answers={
            200: reply("Events as they come.", stream_content("Event", "`id` is the seq, `event` the type.")),
            204: reply("For SSE: the session has ended and its last event was received. Do not reconnect."),
        },
    ),
)
