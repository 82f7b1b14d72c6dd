"""A line for busy publishers: a WebSocket whose messages are batches of events."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send
from websockets.frames import CloseCode

from api.http import query_parameters
from api.publish_line.in_flight import Row
from api.publish_line.publisher import LINE, Publisher
from api.requests.bodies import session_id
from api.services import Services
from api.streaming.open_responses import FAREWELL_S, Cut
from api.transport import websocket_handshake
from api.transport.protocol_upgrade import SWITCHING
from eventstore.domain.errors import InvalidRequest

SUBPROTOCOL: Final = "layby.v1"
_PRODUCER: Final = re.compile(r"[ -~]{1,198}", re.ASCII)
"""What leaves room for a colon and an id in an idempotency key."""


def routes(services: Services) -> list[BaseRoute]:
    async def publish(request: Request) -> Response:
        principal, name = services.door.enter(request, "publish"), session_id(request)
        publisher = Publisher(services.door, services.store, principal, name, _producer(request))
        await services.store.head(principal.tenant, name)  # else each message would hear that there is no such session
        fields = websocket_handshake.accept(request, SUBPROTOCOL)
        services.store.check_room()
        return LineResponse(services, publisher, fields)

    return [Route(LINE, publish, methods=["GET"])]


def _producer(request: Request) -> str | None:
    value = query_parameters.text(request, "producer")
    if value is not None and not _PRODUCER.fullmatch(value):
        raise InvalidRequest.parameter("producer", "must be 1 to 198 printable ASCII characters")
    return value


class LineResponse(Response):
    """The answer that begins a line, and the line until its end."""

    def __init__(self, services: Services, publisher: Publisher, fields: websocket_handshake.Fields) -> None:
        super().__init__(None, SWITCHING)
        self.raw_headers: websocket_handshake.Fields = fields
        self._services: Services = services
        self._publisher: Publisher = publisher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        row = Row(self._publisher, self._services.metrics, self._services.budget, scope)
        start = {"type": "http.response.start", "status": SWITCHING, "headers": self.raw_headers}
        await send({**start, "protocol": row.socket})
        with self._services.metrics.open_lines.track_inprogress():
            try:
                await self._run(row)
            finally:
                row.socket.close()

    async def _run(self, row: Row) -> None:
        try:
            async with self._services.live.held(self._publisher.principal, row.gone):
                await row.answer()
        except Cut:
            await self._cut(row)

    async def _cut(self, row: Row) -> None:
        """Take nothing more. What was taken is carried out, and answered as long as somebody listens."""
        stopping = self._services.stopping.is_set()
        if stopping:
            row.stop(CloseCode.GOING_AWAY, "the server stops")
        else:
            row.stop(CloseCode.POLICY_VIOLATION, "the key opens nothing any more")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if stopping else FAREWELL_S):
                await row.answer()
        row.socket.close()
        await row.answer()  # what is under way counts in the budget
