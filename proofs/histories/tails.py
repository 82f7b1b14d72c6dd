"""Followers of one session, who cut their streams themselves and go on elsewhere: what they got, line by line."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence

from proofs.client import LINE_LIMIT, stream_lines
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
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=LINE_LIMIT)
    try:
        path, host = f"/v1/sessions/{session}/stream?from={start}", f"127.0.0.1:{server.port}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 503"):
            await asyncio.sleep(0.1)
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise Breach(f"{session} was created, and its stream from {start} on is answered {head!r}")
        async for lines in stream_lines(reader):
            for line in lines:
                yield line
            if chance.random() < CUT_AFTER:
                return
    finally:
        writer.close()
