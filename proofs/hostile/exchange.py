"""Bytes to a server, and what comes back: in pieces of any size, from clients that may end their half early."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from itertools import pairwise

from proofs.client import Answer, read_body, read_head

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


@dataclass(slots=True)
class Heard:
    """What a client heard. `cut` means that the server closed the connection before all was answered."""

    replies: list[Answer] = field(default_factory=list[Answer])
    cut: bool = False

    @property
    def appended(self) -> int:
        """Events that were appended, as the replies say."""
        return sum(_appended(reply) for reply in self.replies)


def _appended(reply: Answer) -> int:
    if reply.status != 201 or "idempotency-replayed" in reply.headers:
        return 0
    told = reply.json()
    return 0 if "first_seq" not in told or told["duplicate"] else told["last_seq"] - told["first_seq"] + 1


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
        for piece in pieces(case.data, chance):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if case.ends:
            writer.write_eof()


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
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


async def _reply(reader: asyncio.StreamReader, *, opens: bool) -> Answer | None:
    """One answer; None for an interim one."""
    head = await read_head(reader)
    if head.status == 100:
        return None
    return head if opens and head.status == 200 else await read_body(reader, head)
