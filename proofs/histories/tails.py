"""Followers of one session, who cut their streams themselves and go on elsewhere: what they got, line by line."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence

from proofs.client import opened, stream_lines
from proofs.proof import Breach
from proofs.servers import Server

CUT_AFTER = 0.02
"""How often a follower goes away after a piece, and comes back."""


async def follow(servers: Sequence[Server], first: int, session: str, chance: random.Random) -> list[bytes]:
    """All lines up to the end of the session, read from one server and then another."""
    lines, at = list[bytes](), first
    while True:
        async for line in _stream(servers[at], session, len(lines) + 1, chance):
            if line.startswith(b'{"end":'):
                _check_end(line, lines)
                return lines
            if line:
                lines.append(line)
        at = (at + 1) % len(servers)


def _check_end(line: bytes, lines: list[bytes]) -> None:
    end = json.loads(line)["end"]
    if end != {"reason": "terminal", "next_from": len(lines) + 1}:
        raise Breach(f"a stream that had shown {len(lines)} events ended with {end}")


async def _stream(server: Server, session: str, start: int, chance: random.Random) -> AsyncIterator[bytes]:
    """Lines from here on, until the stream is over, or the follower has enough of it."""
    async with opened(server.port, f"/v1/sessions/{session}/stream?from={start}") as (head, reader):
        if head.status == 503:
            await asyncio.sleep(0.1)
            return
        if head.status != 200:
            raise Breach(f"{session} was created, and its stream from {start} on is answered {head.status}")
        async for lines in stream_lines(reader):
            for line in lines:
                yield line
            if chance.random() < CUT_AFTER:
                return
