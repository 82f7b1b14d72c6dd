"""A publisher's line as its client sees it: the handshake, frames there and back, and nothing that nobody asked for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncGenerator
from typing import Any

from proofs.client import LINE_LIMIT, Answer, read_body, read_head

PROTOCOL = "layby.v1"
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "bGF5YnktYmVuY2htYXJrIQ==",
    "Sec-WebSocket-Protocol": PROTOCOL,
}
_MASKED, _LAST = 0x80, 0x80


class Refused(Exception):
    """A handshake that was not answered with 101."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(str(answer))
        self.answer = answer


class Goodbye(Exception):
    """The server closes the line."""

    def __init__(self, payload: bytes) -> None:
        self.code = int.from_bytes(payload[:2])
        super().__init__(f"{self.code} {payload[2:]!r}")


def frame(payload: bytes, kind: int = TEXT, *, last: bool = True, mask: bytes = bytes(4)) -> bytes:
    """A frame of a client, as a rule a whole message. It must be masked; with a mask of 0 the payload stays as it is,
    and nothing has to be computed."""
    first, size = (_LAST if last else 0) | kind, len(payload)
    if size < 126:
        head = struct.pack("!BB", first, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, _MASKED | 126, size)
    else:
        head = struct.pack("!BBQ", first, _MASKED | 127, size)
    return head + mask + (_masked(payload, mask) if any(mask) else payload)


def _masked(payload: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[n & 3] for n, byte in enumerate(payload))


def frames(heard: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Kind and payload of the whole frames of a server in what was heard, and the rest of it."""
    found, at = list[tuple[int, bytes]](), 0
    while len(heard) >= at + 2:
        size, begin = heard[at + 1], at + 2
        if size >= 126:
            begin += 2 if size == 126 else 8
            size = int.from_bytes(heard[at + 2 : begin]) if len(heard) >= begin else len(heard)
        if len(heard) < begin + size:
            break
        found.append((heard[at] & 0x0F, heard[begin : begin + size]))
        at = begin + size
    return found, heard[at:]


def handshake(path: str, key: str = "") -> bytes:
    """The request that begins a line."""
    told = UPGRADE | ({"Authorization": f"Bearer {key}"} if key else {})
    fields = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode()


class Line:
    """A line that is open. Nothing is read ahead of what is asked for, but for what a buffer holds."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader

    async def send(self, data: bytes) -> None:
        """Frames, or anything else. Raises OSError where it is cut."""
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self) -> tuple[int, bytes]:
        """Kind and payload of the next frame. Raises EOFError or OSError where it is cut."""
        first, size = await self._reader.readexactly(2)
        if size >= 126:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
        return first & 0x0F, await self._reader.readexactly(size)

    async def answer(self) -> dict[str, Any]:
        """The next answer; pings before it are answered. Raises the same, and `Goodbye`."""
        while (heard := await self.hear())[0] != TEXT:
            if heard[0] == CLOSE:
                raise Goodbye(heard[1])
            if heard[0] == PING:
                await self.send(frame(heard[1], PONG))
        return json.loads(heard[1])


@contextlib.asynccontextmanager
async def opened_line(
    port: int, path: str, *, key: str = "", limit_s: float | None = None, ahead: int = LINE_LIMIT
) -> AsyncGenerator[Line]:
    """A line to that path, on a connection of its own, on which so many bytes may be read ahead.

    Raises `Refused`, OSError or EOFError where it is cut, and TimeoutError where it is not open in time."""
    async with asyncio.timeout(limit_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=ahead)
    try:
        writer.write(handshake(path, key))
        async with asyncio.timeout(limit_s):
            head = await read_head(reader)
            if head.status != 101:
                raise Refused(await read_body(reader, head))
        yield Line(reader, writer)
    finally:
        writer.close()
