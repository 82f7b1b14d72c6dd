"""A line for busy publishers: a WebSocket whose messages are batches of events."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from websockets.frames import CloseCode

from api.http import json_schema, query_parameters
from api.http.authentication import LAYBY_ACTOR
from api.http.headers import KEY_MAX
from api.http.parameter_types import RequestHeader
from api.publish_line.in_flight import UNANSWERED, InFlightMessages
from api.publish_line.messages import BESIDE_EVENTS
from api.publish_line.publisher import LINE, Publisher
from api.requests.descriptions import reply
from api.requests.endpoint import Endpoint, Operation, Received
from api.requests.events import BATCH_BYTES
from api.services import Services
from api.streaming.open_responses import FAREWELL_S, StreamClosed
from api.transport import websocket_handshake
from api.transport.protocol_upgrade import SWITCHING
from eventstore.domain.errors import UpgradeRequired

SUBPROTOCOL: Final = "layby.v1"
PRODUCER_MAX: Final = KEY_MAX - 2
"""The longest name of a producer, in characters: it leaves room for a colon and an id in an idempotency key."""
PRODUCER: Final = query_parameters.matching(
    "producer",
    "Makes ids safe to repeat: each is then the Idempotency-Key `<producer>:<id>` of its events.",
    re.compile(rf"[ -~]{{1,{PRODUCER_MAX}}}", re.ASCII),
    f"1 to {PRODUCER_MAX} printable ASCII characters",
)
PROTOCOL: Final = RequestHeader("Sec-WebSocket-Protocol", "Must offer it.", json_schema.text(examples=[SUBPROTOCOL]))


async def publish(services: Services, received: Received) -> Response:
    principal, name = received.principal, received.session_id
    publisher = Publisher(services.door, services.store, principal, name, received.query(PRODUCER))
    await services.store.head(principal.tenant, name)  # else each message would hear that there is no such session
    fields = websocket_handshake.accept(received.request, SUBPROTOCOL)
    services.store.check_room()
    return LineResponse(services, publisher, fields)


class LineResponse(Response):
    """The answer that begins a line, and the line until its end."""

    def __init__(self, services: Services, publisher: Publisher, fields: websocket_handshake.Fields) -> None:
        super().__init__(None, SWITCHING)
        self.raw_headers: websocket_handshake.Fields = fields
        self._services: Services = services
        self._publisher: Publisher = publisher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        row = InFlightMessages(self._publisher, self._services.metrics, self._services.budget, scope)
        start = {"type": "http.response.start", "status": SWITCHING, "headers": self.raw_headers}
        await send({**start, "protocol": row.socket})
        with self._services.metrics.open_lines.track_inprogress():
            try:
                await self._run(row)
            finally:
                row.socket.close()

    async def _run(self, row: InFlightMessages) -> None:
        try:
            async with self._services.live.held(self._publisher.principal, row.gone):
                await row.answer()
        except StreamClosed:
            await self._cut(row)

    async def _cut(self, row: InFlightMessages) -> None:
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


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        LINE,
        publish,
        Operation(
            "openLine",
            "events",
            "Open a line for publishing: a WebSocket",
            "Each text message is a `LineMessage`, carried out in order as a request with its events would be,"
            " and answered in order by a `LineAnswer` or a `LineRefusal`."
            f" Up to {UNANSWERED} may be unanswered; beyond that none is read."
            " The line is closed with 1001 when the server stops, 1003 for a binary message, 1008 when its key is"
            f" revoked, 1009 for a message beyond {BATCH_BYTES >> 20} MiB and {BESIDE_EVENTS >> 10} KiB, 1013 when too"
            " much is under way: behind the answers to what was taken.",
        ),
        scope="publish",
        query=(PRODUCER,),
        headers=(LAYBY_ACTOR, PROTOCOL),
        answers={101: reply("The line is open.", None, PROTOCOL.name)},
        problems=(UpgradeRequired,),
    ),
)
