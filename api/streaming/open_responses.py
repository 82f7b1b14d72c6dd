"""Answers that stay open: streams and long polls. They end when the client goes, and are cut when the server stops, or
when the key that they came in by opens nothing any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.http.authentication import Principal
from api.metrics.registry import Metrics
from api.streaming.encoders import Encoder
from api.transport.response_writer import StreamWriter
from eventstore.domain.errors import LaybyError
from eventstore.support.timing import TIMING

log = logging.getLogger("layby.http")

PATROL_EVERY_S: Final = 1.0
"""How long a stream may outlive its key, beyond the time that the news of it takes."""
FAREWELL_S: Final = 1.0
"""How long a stream that is cut waits for a client that does not read, to close in good order."""
STREAM_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Beat = Callable[[], Awaitable[None]]
Admits = Callable[[str | None], bool]
"""Whether what came in by a key (None: by none) may go on."""


class StreamClosed(Exception):
    """The client has gone, its key is no good any more, or the server stops: whatever was open here is over."""


class OpenResponses:
    """Everything of one server that stays open."""

    def __init__(self, heartbeat_s: float = TIMING.heartbeat_s) -> None:
        self.heartbeat_s: float = heartbeat_s
        self._open: defaultdict[str | None, set[asyncio.Timeout]] = defaultdict(set)  # by key
        self._stopping: bool = False

    @asynccontextmanager
    async def held(self, principal: Principal, receive: Receive, beat: Beat | None = None) -> AsyncGenerator[None]:
        """Run the body until it is done; raises `StreamClosed` in place of its rest. `beat` is called every heartbeat.

        A timeout that nobody has set yet is the means: it ends the body, and the body alone, from outside.
        """
        scope, key_id = asyncio.timeout(None), principal.key_id
        keeper = asyncio.create_task(self._keep(receive, scope, beat))
        try:
            async with scope:
                self._open[key_id].add(scope)
                if self._stopping:
                    _end(scope)
                yield
        except TimeoutError:
            if scope.expired():
                raise StreamClosed from None
            raise
        finally:
            self._forget(key_id, scope)
            keeper.cancel()

    def _forget(self, key_id: str | None, scope: asyncio.Timeout) -> None:
        self._open[key_id].discard(scope)
        if not self._open[key_id]:
            del self._open[key_id]

    async def _keep(self, receive: Receive, scope: asyncio.Timeout, beat: Beat | None) -> None:
        """Beat, until the client is gone."""
        while True:
            try:
                async with asyncio.timeout(self.heartbeat_s if beat else None):
                    message = await receive()
            except TimeoutError:
                assert beat
                await beat()
                continue
            if message["type"] == "http.disconnect":
                return _end(scope)

    def cut(self) -> None:
        """End all that is open, and whatever still begins."""
        self._stopping = True
        self._cut(list(self._open))

    async def patrol(self, admits: Admits) -> None:
        """Cut, until cancelled, what came in by a key that opens nothing any more. The work grows with the number of
        such keys, not with that of streams. What began just before its key went is met the next time."""
        while True:
            await asyncio.sleep(PATROL_EVERY_S)
            self._cut([key_id for key_id in self._open if not admits(key_id)])

    def _cut(self, keys: list[str | None]) -> None:
        for key_id in keys:
            for scope in self._open[key_id]:
                _end(scope)


def _end(scope: asyncio.Timeout) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())


class StreamResponse(Response):
    """A stream. Its headers leave at once; a slow client holds up its own frames and nothing else.

    `frames` gives encoded pieces; when it ends, so does the stream. A stream that is cut just closes. Others may push
    to its `outlet`, while `frames` has nothing to give.
    """

    def __init__(
        self,
        principal: Principal,
        frames: AsyncGenerator[bytes],
        encoder: Encoder,
        live: OpenResponses,
        metrics: Metrics,
        outlet: StreamWriter | None = None,
    ) -> None:
        super().__init__(None, 200, STREAM_HEADERS, encoder.media_type)
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._principal: Principal = principal
        self._frames: AsyncGenerator[bytes] = frames
        self._encoder: Encoder = encoder
        self._live: OpenResponses = live
        self._metrics: Metrics = metrics
        self._outlet: StreamWriter | None = outlet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outlet = self._outlet or StreamWriter(scope)
        async with aclosing(self._frames):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            outlet.open(send)
            await self._pour(receive, outlet)
        if not outlet.closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    await outlet.finish()

    async def _pour(self, receive: Receive, outlet: StreamWriter) -> None:
        """Send frame after frame, and heartbeats between them."""
        with self._metrics.open_tails.track_inprogress(), contextlib.suppress(StreamClosed):
            async with self._live.held(self._principal, receive, lambda: outlet.beat(self._encoder.heartbeat)):
                try:
                    async for piece in self._frames:
                        await outlet.write(piece)
                except LaybyError as error:  # the client comes back, and hears of it then
                    log.info("a stream was cut: %s", error.detail)
                await outlet.finish()
