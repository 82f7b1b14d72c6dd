"""Script calls that are ready together leave together, in one pipeline: commits of different sessions, and reads.

There is no timer. What arrives while the pipelines in flight are under way forms the next one; an idle dispatcher
sends at once. Calls of one session never overlap, since its lane waits for each answer; so order needs no care here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from eventstore.connection import Connection
from eventstore.durability import Confirmation
from eventstore.scripts import ScriptCall

IN_FLIGHT = 2
"""Pipelines under way at once: one is on the wire while the engine works on the other."""
COMMITS_PER_PIPELINE = 256
READS_PER_PIPELINE = 32
"""A read may answer with a page of a megabyte; so fewer of them go together."""
PIPELINE_BYTES = 16 * 1024 * 1024
"""A pipeline takes no more than this, except for a single call that is larger by itself."""

_Waiting = tuple[ScriptCall, "asyncio.Future[tuple[Any, str]]"]


class Dispatcher:
    """Sends script calls. `run` gives the reply, and the durability that was reached (none without `confirmation`)."""

    def __init__(self, connection: Connection, confirmation: Confirmation | None = None) -> None:
        self._connection: Connection = connection
        self._confirmation: Confirmation | None = confirmation
        self._most: int = COMMITS_PER_PIPELINE if confirmation else READS_PER_PIPELINE
        self._waiting: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._scheduled: bool = False

    @property
    def confirms(self) -> bool:
        """Whether each commit has to be confirmed; without that its `durability` is known beforehand."""
        return bool(self._confirmation and self._confirmation.command)

    @property
    def durability(self) -> str:
        """What a commit reaches as a rule."""
        return self._confirmation.usual if self._confirmation else ""

    async def run(self, call: ScriptCall) -> tuple[Any, str]:
        """Raises `StoreUnavailable` or `StoreFull`; whether the call took effect is unknown after the former."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, str]] = loop.create_future()
        self._waiting.append((call, future))
        if not self._scheduled and len(self._tasks) < IN_FLIGHT:
            self._scheduled = True
            loop.call_soon(self._leave)
        return await future

    async def close(self) -> None:
        """Let go of the connection."""
        await self._connection.close()

    async def reply(self, call: ScriptCall) -> Any:
        """The reply alone."""
        return (await self.run(call))[0]

    def _leave(self) -> None:
        self._scheduled = False
        while self._waiting and len(self._tasks) < IN_FLIGHT:
            task = asyncio.create_task(self._send(self._take()))
            self._tasks.add(task)
            task.add_done_callback(self._back)

    def _take(self) -> list[_Waiting]:
        """What goes into the next pipeline, by count and bytes."""
        batch, room = list[_Waiting](), PIPELINE_BYTES
        while self._waiting and len(batch) < self._most:
            room -= self._waiting[0][0].size
            if room < 0 and batch:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _back(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._leave()

    async def _send(self, batch: list[_Waiting]) -> None:
        confirmation = self._confirmation
        last = confirmation.command if confirmation else ()
        try:
            replies = await self._connection.run_all([call for call, _ in batch], last)
            reached = confirmation.reached(replies.pop() if last else None) if confirmation else ""
        except Exception as error:  # handed on to everyone who waits: none of them may hang
            replies, reached = list[Any]([error] * len(batch)), ""
        for (_, future), reply in zip(batch, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result((reply, reached))
