"""A stand-in for the network, before a server or an engine: it cuts, delays, splits and goes silent on demand.

    async with Proxy(server.url, concerns=is_request) as proxy:
        proxy.faults.append(CUT_AFTER)          # the next request loses its reply
        Client(proxy.port)

The requests that faults befall are those that `concerns` names; each takes the next fault from the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from eventstore.commit import idempotency_keys
from eventstore.commit.records import COMMIT, DELETE

CHUNK = 1 << 20
_WRITES = tuple(script.sha.encode() for script in (COMMIT, DELETE, idempotency_keys.HOLD))
_RESET = struct.pack("ii", 1, 0)
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def is_write(data: bytes) -> bool:
    """A pipeline with a commit or a deletion in it."""
    return any(sha in data for sha in _WRITES)


def is_request(data: bytes) -> bool:
    """An HTTP request that changes something."""
    return data.startswith((b"POST ", b"DELETE "))


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls one request, and its connection from then on."""

    name: str
    passes: Callable[[bytes], int] = len
    """How many bytes of the request get through. If that is not all, nothing follows."""
    replies: int | None = None
    """How many bytes come back, and none after them; None for all."""
    ends: str = "fin"
    """How the connection ends where something does not get through: `fin`, `rst`, or `never` (it stays half-open)."""
    delay_s: float = 0.0
    split: bool = False
    """Byte by byte, both ways."""


def _half(data: bytes) -> int:
    return len(data) // 2


def _before_last_line(data: bytes) -> int:
    """Up to the last line break within: a body of lines seems whole, and lacks one; any other is missing."""
    return data.rfind(b"\n", 0, len(data) - 1) + 1


def _nothing(_: bytes) -> int:
    return 0


CUT_BEFORE = Fault("cut before the request", _nothing)
CUT_WITHIN = Fault("cut within the request", _half)
CUT_AT_A_LINE = Fault("cut between its lines", _before_last_line)
RESET_WITHIN = Fault("reset within the request", _half, ends="rst")
CUT_AFTER = Fault("cut before the reply", replies=0)
RESET_AFTER = Fault("reset before the reply", replies=0, ends="rst")
CUT_REPLY = Fault("cut within the reply", replies=40)
SILENT_BEFORE = Fault("half-open before the request", _nothing, ends="never")
SILENT_AFTER = Fault("half-open before the reply", replies=0, ends="never")
SLOW = Fault("delayed", delay_s=0.2)
SPLIT = Fault("split into bytes", split=True)
_CUTS = (CUT_BEFORE, CUT_WITHIN, CUT_AT_A_LINE, RESET_WITHIN, CUT_AFTER, RESET_AFTER, CUT_REPLY)
FAULTS = (*_CUTS, SILENT_BEFORE, SILENT_AFTER, SLOW, SPLIT)


class Proxy:
    """Forwards everything until told otherwise."""

    def __init__(
        self, upstream: str, path: Path | None = None, *, concerns: Callable[[bytes], bool] = is_write
    ) -> None:
        """`upstream` is a URL, `unix://` or any other with a host and a port. It listens on a unix socket at `path`,
        or on a port of its own."""
        self._upstream, self._path, self._concerns = upstream, path, concerns
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        self.befell = 0
        self.faults: deque[Fault] = deque()
        self.choose: Callable[[], Fault | None] = lambda: None
        """What befalls a request when no fault is queued."""
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """Done when a reply is there that will not come through."""
        self.answers: list[bytes] = []
        """Given in place of whatever would be answered."""

    @property
    def url(self) -> str:
        return "unix://" + quote(str(self._path)) if self._path else f"redis://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        """Listen; on the same port as before."""
        if self._path:
            self._server = await asyncio.start_unix_server(self._serve, self._path)
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Nobody listens any more, and every connection is cut."""
        if self._server:
            self._server.close()
            if self._path:
                self._path.unlink(missing_ok=True)
        self.cut()

    def cut(self) -> None:
        """Every connection that is there now; faults that were to come are forgotten."""
        self.faults.clear()
        for link in list(self._links):
            link.end("fin")

    def hold(self) -> None:
        """Take in, but pass nothing on."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    async def passing(self) -> None:
        await self._flowing.wait()

    def befalls(self, data: bytes) -> Fault | None:
        """The fault that is due with this request."""
        if not self._concerns(data):
            return None
        fault = self.faults.popleft() if self.faults else self.choose()
        self.befell += fault is not None
        return fault

    async def _serve(self, *client: asyncio.StreamReader | asyncio.StreamWriter) -> None:
        reader, writer = client
        assert isinstance(reader, asyncio.StreamReader)
        assert isinstance(writer, asyncio.StreamWriter)
        try:
            upstream = await self._connect()
        except OSError:
            writer.close()
            return
        link = _Link(self, (reader, writer), upstream)
        self._links.add(link)
        try:
            with contextlib.suppress(asyncio.CancelledError):  # asyncio would complain of it, at the end of a run
                await link.run()
        finally:
            self._links.discard(link)

    async def _connect(self) -> Ends:
        if self._upstream.startswith("unix://"):
            return await asyncio.open_unix_connection(unquote(self._upstream.removeprefix("unix://")))
        address = urlsplit(self._upstream)
        return await asyncio.open_connection(address.hostname, address.port)


class _Link:
    """One connection."""

    def __init__(self, proxy: Proxy, client: Ends, engine: Ends) -> None:
        self._proxy, self._client, self._engine = proxy, client, engine
        self._fault = Fault("none")
        self._let_through = 0
        self._lost = False

    async def run(self) -> None:
        """Until either end is closed."""
        await asyncio.gather(self._requests(), self._replies())

    def end(self, how: str) -> None:
        """Close both ends; what is half-open stays so until its other side goes."""
        if how == "never":
            return
        for _, writer in (self._client, self._engine):
            if writer.is_closing():
                continue
            if how == "rst" and (ours := writer.get_extra_info("socket")) and ours.family != socket.AF_UNIX:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.close()

    async def _requests(self) -> None:
        reader, onward = self._client[0], self._engine[1]
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._proxy.passing()
                if fault := self._proxy.befalls(data):
                    self._fault, self._let_through = fault, 0
                    await asyncio.sleep(fault.delay_s)
                    if (most := fault.passes(data)) < len(data):
                        await _send(onward, data[:most], split=False)
                        await self._gone(fault)
                        return
                elif self._proxy.answers and not data.startswith(b"*4\r\n$6\r\nCLIENT"):
                    self._client[1].write(self._proxy.answers.pop(0))
                    continue
                await _send(onward, data, split=self._fault.split)
        self.end("fin")

    async def _gone(self, fault: Fault) -> None:
        """Nothing gets through any more."""
        self.end(fault.ends)
        while fault.ends == "never" and await self._client[0].read(CHUNK):
            pass
        self.end("fin")

    async def _replies(self) -> None:
        proxy = self._proxy
        with contextlib.suppress(OSError):
            while data := await self._engine[0].read(CHUNK):
                if self._lost:  # whatever fault comes next, no reply is missing between two others
                    continue
                fault, whole = self._fault, True
                if fault.replies is not None:
                    whole = len(data) <= (room := fault.replies - self._let_through)
                    data = data[: max(0, room)]
                    self._let_through += len(data)
                await proxy.passing()
                await asyncio.sleep(fault.delay_s)
                await _send(self._client[1], data, split=fault.split)
                if not whole:
                    self._lost = True
                    if proxy.meanwhile:
                        await proxy.meanwhile()
                    self.end(fault.ends)
        self.end(self._fault.ends)


async def _send(writer: asyncio.StreamWriter, data: bytes, *, split: bool) -> None:
    for piece in (data[at : at + 1] for at in range(len(data))) if split else [data]:
        writer.write(piece)
        await writer.drain()
        if split:
            await asyncio.sleep(0)
