"""Readers that follow over connections that break, and go on from the last thing that they had: no gap, no double."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from proofs.client import Client, opened
from proofs.proof import Run
from proofs.proxy import CUT_BEFORE, SLOW, SPLIT, Fault, Proxy

SESSION = "followed"
_CUTS = tuple(Fault("cut within the stream", replies=size) for size in (10, 300, 500, 1_000, 2_000))
_SPLIT = replace(SPLIT, replies=700)
_SLOW = replace(SLOW, replies=700)
"""After so many bytes of a stream its connection ends, its head among them."""
LIMIT_S = 120.0


@dataclass(slots=True)
class Reader:
    """One way to follow. `resume` makes a path and headers of the last place; `take` tells the seq of a line, 0 for
    one of another session, and its place."""

    name: str
    resume: Callable[[Any], tuple[str, dict[str, str]]]
    take: Callable[[list[str]], tuple[int, Any] | None]
    seqs: list[int] = field(default_factory=list[int])
    connections: int = 0

    async def follow(self, port: int, last: int) -> None:
        """Until the last seq is here."""
        place: Any = None
        while not self.seqs or self.seqs[-1] < last:
            self.connections += 1
            path, headers = self.resume(place)
            async with aclosing(_blocks(port, path, headers)) as blocks:
                async for block in blocks:
                    if found := self.take(block):
                        seq, place = found
                        self.seqs += [seq] if seq else []
                        if seq >= last:
                            return


async def _blocks(port: int, path: str, headers: dict[str, str]) -> AsyncGenerator[list[str]]:
    """What came whole: lines of NDJSON one by one, events of SSE with all their lines. Ends with the connection."""
    events = headers["Accept"] == "text/event-stream"
    with contextlib.suppress(OSError, EOFError, ValueError):
        async with opened(port, path, headers) as (_, reader):
            kept, end = b"", b"\n\n" if events else b"\n"
            async for piece in _pieces(reader):
                *whole, kept = (kept + piece).split(end)
                for block in whole:
                    yield block.decode().split("\n")


async def _pieces(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    """A chunked body as it comes in: what came before a cut came."""
    while size := int(await reader.readline(), 16):
        while size:
            piece = await reader.read(size)
            if not piece:
                return
            size -= len(piece)
            yield piece
        await reader.readexactly(2)


def _lines(place: int | None) -> tuple[str, dict[str, str]]:
    return f"/v1/sessions/{SESSION}/stream?from={(place or 0) + 1}", {"Accept": "application/x-ndjson"}


def _line(block: list[str]) -> tuple[int, int] | None:
    if not block[0]:
        return None
    seq = json.loads(block[0])["seq"]
    return seq, seq


def _events(place: str | None) -> tuple[str, dict[str, str]]:
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": place} if place else {})
    return f"/v1/sessions/{SESSION}/stream", headers


def _event(block: list[str]) -> tuple[int, str] | None:
    fields = dict(line.split(": ", 1) for line in block if ": " in line and not line.startswith(":"))
    return (json.loads(fields["data"])["seq"], fields["id"]) if "id" in fields else None


def _feed(place: str | None) -> tuple[str, dict[str, str]]:
    return f"/v1/stream?types=note.taken{f'&cursor={place}' if place else ''}", {"Accept": "application/x-ndjson"}


def _of_feed(block: list[str]) -> tuple[int, str] | None:
    found: dict[str, Any] = json.loads(block[0]) if block[0] else {}
    return (found["seq"] if found["session_id"] == SESSION else 0, found["cursor"]) if found else None


def is_stream(data: bytes) -> bool:
    """A request for one."""
    return data.startswith(b"GET ")


async def prove(run: Run, url: str, client: Client, notes: int) -> None:
    """Three readers follow one session, while notes are appended to it."""
    choose = random.Random(run.seed)
    readers = [Reader("NDJSON", _lines, _line), Reader("SSE", _events, _event), Reader("feed", _feed, _of_feed)]
    await client.insist("POST", "/v1/sessions", {"session_id": SESSION}, key="followed")
    async with Proxy(url, concerns=is_stream) as proxy:
        proxy.choose = lambda: _fault(choose)
        following = [asyncio.create_task(reader.follow(proxy.port, 1 + notes)) for reader in readers]
        for number in range(notes):
            body = {"type": "note.taken", "data": {"n": number, "padding": "x" * choose.randrange(200)}}
            await client.insist("POST", f"/v1/sessions/{SESSION}/events", body, key=f"note-{number}")
        _, late = await asyncio.wait(following, timeout=LIMIT_S)
        for task in late:
            task.cancel()
        for reader in readers:
            first = 2 if reader.name == "feed" else 1  # where only notes are asked for
            run.check(
                reader.seqs == list(range(first, notes + 2)),
                f"{reader.name} over {reader.connections} connections read {_odd(reader.seqs)}, of 1 to {notes + 1}",
            )
    run.figure("reconnections of followers", sum(reader.connections - 1 for reader in readers))


def _fault(choose: random.Random) -> Fault:
    return choose.choice([*_CUTS, _SPLIT, _SLOW, CUT_BEFORE])


def _odd(seqs: list[int]) -> str:
    """Where the order breaks."""
    breaks = [pair for pair in pairwise(seqs) if pair[1] != pair[0] + 1]
    return f"{len(seqs)} events from {seqs[:1]} to {seqs[-1:]}, with breaks at {breaks[:5]}"
