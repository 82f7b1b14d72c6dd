"""Lines whose clients send as fast as they can and read nothing, many at once: memory stays bounded, and others are
served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from proofs.hostile.exchange import ANSWERED_S
from proofs.hostile.fuzzing import GROWTH_MIB, resident_mib
from proofs.hostile.lines import events_of, line_of, session
from proofs.line import BINARY, CONTINUED, PING, frame, opened_line
from proofs.proof import Breach, Run
from proofs.servers import Server

_T = TypeVar("_T")
BATCH = 3
LARGE = 10_000
ROOM = 4_096
"""Bytes of answers that a client's machine takes in for it."""
LOOK_EVERY_S = 0.05
MANY = 100
"""Frames that are sent in one piece."""


def _batch(text: str) -> bytes:
    return frame(json.dumps({"events": [{"type": "a.b", "data": {"text": text}}] * BATCH, "id": "1"}).encode())


FLOODS = {
    "messages": (b"", _batch("") * MANY),
    "large messages": (b"", _batch("x" * LARGE) * MANY),
    "refused messages": (b"", frame(b"{}") * MANY),
    "pings": (b"", frame(b"x" * 125, PING) * MANY),
    "parts of a message": (frame(b"", last=False), frame(b"x", CONTINUED, last=False) * MANY),
    "frames after the end": (frame(b"", BINARY) + frame(b"", last=False), frame(b"", CONTINUED, last=False) * MANY),
    "frames of nothing": (frame(b"", last=False), frame(b"", CONTINUED, last=False) * MANY),
}
"""What is sent first, and what over and over."""


@dataclass(slots=True)
class Floods:
    """So many lines of each kind, all at once, until each of two others has had so many answers."""

    run: Run
    server: Server
    lines: int
    wanted: int
    sent: int = 0
    slowest_s: float = 0.0

    async def prove(self) -> None:
        before = most = resident_mib(self.server.pid)
        async with self.server.client() as honest:
            names = [await session(self.run, honest) for _ in range(self.lines * len(FLOODS))]
            async with asyncio.TaskGroup() as group:
                floods = [
                    group.create_task(self._flood(name, *flood))
                    for name, flood in zip(names, [*FLOODS.values()] * self.lines, strict=True)
                ]
                others = [group.create_task(self._by_request()), group.create_task(self._by_line())]
                while not all(other.done() for other in others):
                    most = max(most, resident_mib(self.server.pid))
                    await asyncio.sleep(LOOK_EVERY_S)
                for flood in floods:
                    flood.cancel()
            for name in names:
                grown = await self._in_time(events_of(self.run, honest, name))
                self.run.check(grown % BATCH == 0, f"a flood of batches of {BATCH} has left {grown} events")
        self.run.check(most - before < GROWTH_MIB, f"floods made the server grow from {before:.0f} to {most:.0f} MiB")
        self.run.figure("lines that read nothing, and frames on them", f"{len(names)}, {self.sent:,}")
        self.run.figure("memory of the server meanwhile, and before", f"{most:.0f}, {before:.0f} MiB")
        self.run.figure("others meanwhile, answered after at most", f"{self.slowest_s:.2f} s")

    async def _flood(self, name: str, first: bytes, again: bytes) -> None:
        """Until it is ended, or the server hangs up."""
        async with opened_line(self.server.port, line_of(name), ahead=ROOM) as line:
            line.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
            try:
                with contextlib.suppress(OSError):
                    await line.send(first)
                    while True:
                        await line.send(again)
                        self.sent += MANY
                        await asyncio.sleep(0)
            finally:
                line.writer.transport.abort()

    async def _by_request(self) -> None:
        async with self.server.client() as client:
            name = await self._in_time(session(self.run, client))

            async def ask() -> bool:
                answer = await client.request("POST", f"/v1/sessions/{name}/events", {"type": "a.b"})
                return answer.status == 201

            await self._served(ask)

    async def _by_line(self) -> None:
        async with self.server.client() as client, contextlib.AsyncExitStack() as kept:
            name = await self._in_time(session(self.run, client))
            line = await self._in_time(kept.enter_async_context(opened_line(self.server.port, line_of(name))))

            async def ask() -> bool:
                await line.send(_batch(""))
                return "problem" not in await line.answer()

            await self._served(ask)

    async def _served(self, ask: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(self.wanted):
            self.run.check(await self._in_time(ask()), "beside floods somebody else is refused")

    async def _in_time(self, answer: Awaitable[_T]) -> _T:
        began = time.monotonic()
        try:
            async with asyncio.timeout(ANSWERED_S):
                return await answer
        except TimeoutError:
            raise Breach(f"beside floods others wait longer than {ANSWERED_S:.0f} s") from None
        finally:
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
