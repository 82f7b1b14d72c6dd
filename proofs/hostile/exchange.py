"""Bytes to a server, and what comes back: in pieces of any size, from clients that may end their half early."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

ANSWERED_S = 20.0
"""Each request is answered, or its connection closed, within this time. Generous: others use the machine too."""


@dataclass(frozen=True, slots=True)
class Hostile:
    """What one client sends."""

    kind: str
    data: bytes
    answers: int = 1
    """How many answers to wait for, at most."""
    events: int | None = None
    """How many events the session gets if what it sends is taken; None where nobody can say."""
    ends: bool = False
    """The client ends its half of the connection: what it has announced will not come."""
    refused: bool = False
    """It makes no sense, and must be told so: 400."""
    opens: bool = False
    """What it asks for does not end by itself."""

    @property
    def writes(self) -> bool:
        return b"POST" in self.data or self.kind == "bytes changed"

    def __str__(self) -> str:
        return f"{self.kind}: {self.data[:600]!r}{'…' if len(self.data) > 600 else ''}"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def appended(self) -> int:
        """Events that it says were appended."""
        if self.status != 201 or "idempotency-replayed" in self.headers:
            return 0
        told: dict[str, Any] = json.loads(self.body)
        return 0 if "first_seq" not in told or told["duplicate"] else told["last_seq"] - told["first_seq"] + 1


@dataclass(slots=True)
class Heard:
    """What a client heard. `cut` means that the server closed the connection before all was answered."""

    replies: list[Reply] = field(default_factory=list[Reply])
    cut: bool = False


class NotAnswered(Exception):
    """Neither an answer nor an end of the connection, in time."""


async def send(port: int, case: Hostile, chance: random.Random) -> Heard:
    """Raises `NotAnswered`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    heard = Heard()
    try:
        async with asyncio.timeout(ANSWERED_S):
            writing = asyncio.create_task(_write(writer, case, chance))
            try:
                await _read(reader, case, heard)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
    except TimeoutError:
        raise NotAnswered(str(case)) from None
    finally:
        if chance.random() < 0.3:
            writer.transport.abort()
        writer.close()
    return heard


async def _write(writer: asyncio.StreamWriter, case: Hostile, chance: random.Random) -> None:
    with contextlib.suppress(ConnectionError, OSError):  # a refusal may come before all is sent
        for piece in _pieces(case.data, chance):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if case.ends:
            writer.write_eof()


def _pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """The data, cut at a few places that nobody expects; sometimes byte by byte."""
    if len(data) < 400 and chance.random() < 0.05:
        return [data[n : n + 1] for n in range(len(data))]
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 3))))
    bounds = [0, *places, len(data)]
    return [data[start:end] for start, end in pairwise(bounds) if start < end]


async def _read(reader: asyncio.StreamReader, case: Hostile, heard: Heard) -> None:
    try:
        while len(heard.replies) < case.answers:
            reply = await _reply(reader, opens=case.opens)
            if reply is not None:
                heard.replies.append(reply)
    except (asyncio.IncompleteReadError, ConnectionError):
        heard.cut = True


async def _reply(reader: asyncio.StreamReader, *, opens: bool) -> Reply | None:
    """One answer; None for an interim one."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.rstrip("\r\n").split("\r\n")
    status = int(line.split(" ")[1])
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in fields)}
    if status == 100:
        return None
    if opens and status == 200:
        return Reply(status, headers, b"")
    if "chunked" in headers.get("transfer-encoding", ""):
        return Reply(status, headers, await _chunks(reader))
    return Reply(status, headers, await reader.readexactly(_length(status, headers)))


def _length(status: int, headers: dict[str, str]) -> int:
    return 0 if status in (204, 304) else int(headers.get("content-length", "0"))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body
