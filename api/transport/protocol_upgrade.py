"""A connection that begins in HTTP, and may go on in another protocol: the answer 101 hands it over."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, Protocol, cast

from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.transport.http_protocol import HttpProtocol
from api.transport.websocket_handshake import Fields, wishes

SWITCHING: Final = 101


class Successor(Protocol):
    """What goes on with a connection: an `asyncio.Protocol` that is told of it like this."""

    def begin(self, transport: asyncio.Transport, connections: set[Any]) -> None:
        """`connections` are those of the server; it is one of them until it is lost."""
        ...


class SwitchingProtocol(HttpProtocol):
    """HTTP, until an answer says otherwise."""

    def _prepare(self, cycle: RequestResponseCycle) -> None:
        super()._prepare(cycle)
        if wishes(cast(Any, cycle.scope)):
            cast(Any, cycle).send = partial(self._answer, cycle, cycle.send)

    async def _answer(self, cycle: RequestResponseCycle, send: Any, message: Any) -> None:
        """What the application answers to this request may be 101."""
        if message["type"] == "http.response.start" and message["status"] == SWITCHING:
            self._switch(cycle, message["headers"], message["protocol"])
        else:
            await send(message)

    def _switch(self, cycle: RequestResponseCycle, fields: Fields, successor: Successor) -> None:
        """Raises `ClientDisconnect` for a client that has gone, or has not waited for the answer."""
        if cycle.disconnected or self._begun or self.pipeline:
            self._hang_up()
            raise ClientDisconnect
        cycle.response_started = cycle.response_complete = True
        self._busy()
        self._stop_waiting()
        self._unread.end()
        lines = [name + b": " + value for name, value in [*self.server_state.default_headers, *fields]]
        self.transport.write(b"\r\n".join([b"HTTP/1.1 101 Switching Protocols", *lines, b"", b""]))
        connections = cast("set[Any]", self.connections)
        connections.discard(self)
        self.transport.set_protocol(cast(asyncio.Protocol, successor))
        successor.begin(self.transport, connections)
