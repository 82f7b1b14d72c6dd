"""The way out of the server: as few writes as there can be, since each is a call to the kernel and wakes the client."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from starlette.types import Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

PUSH: Final = "layby.push"
"""The extension of a request by which a piece of the body of its answer leaves at once: a `Push`."""
Push = Callable[[bytes], bool]
"""Sends a piece, unless it would have to wait; then nothing is sent."""


class HeadWithBody:
    """A transport for one answer. It keeps the head until the body follows, which is in the same breath unless the
    body is yet to come."""

    __slots__ = ("_begun", "_held", "_loop", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._transport: asyncio.Transport = transport
        self._held: bytes = b""
        self._begun: bool = False

    def write(self, data: bytes) -> None:
        if not self._begun:
            self._begun, self._held = True, data
            self._loop.call_soon(self._flush)
        elif self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():  # uvloop's raises once the connection is lost
            self._transport.write(held)


def offer_push(cycle: RequestResponseCycle) -> None:
    """Let the application push to this answer."""
    scope = cast("dict[str, Any]", cycle.scope)
    scope["extensions"] = {**scope.get("extensions", {}), PUSH: partial(_push, weakref.ref(cycle))}


def _push(of: weakref.ref[RequestResponseCycle], piece: bytes) -> bool:
    cycle = of()
    if cycle is None or cycle.disconnected or cycle.response_complete or not cycle.chunked_encoding:
        return False
    if cycle.flow.write_paused:
        return False
    cycle.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    return True


class StreamWriter:
    """The body of an answer that stays open, which a writer, a heartbeat and whoever pushes share: none may come in the
    middle of the other."""

    def __init__(self, scope: Scope) -> None:
        self._push: Push | None = scope.get("extensions", {}).get(PUSH)
        self._send: Send | None = None
        self._lock: asyncio.Lock = asyncio.Lock()
        self.closed: bool = False

    def open(self, send: Send) -> None:
        """The head has been sent."""
        self._send = send

    async def write(self, piece: bytes) -> None:
        async with self._lock:
            if not self.closed:
                await self._put(piece)

    async def beat(self, piece: bytes) -> None:
        """The same, unless a client that does not read holds up something already."""
        if not self._lock.locked():
            await self.write(piece)

    def push(self, pieces: Sequence[bytes]) -> bool:
        """Send at once; False, and nothing is sent, where that would have to wait."""
        if self._push is None or self._send is None or self.closed or self._lock.locked() or len(pieces) > 1:
            return False
        return all(map(self._push, pieces))

    async def finish(self) -> None:
        async with self._lock:
            await self._put(b"", more=False)
            self.closed = True

    async def _put(self, piece: bytes, *, more: bool = True) -> None:
        assert self._send
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})
