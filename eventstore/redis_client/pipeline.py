"""Script calls that are ready together leave together, in one pipeline: commits of different sessions, and reads.

There is no timer. What arrives while the pipelines in flight are under way forms the next one; an idle dispatcher
sends at once. Calls of one session never overlap, since its lane waits for each answer; so order needs no care here.
Each engine has a queue of its own, so that one that does not answer holds up nothing that is meant for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.durability import Confirmation
from eventstore.redis_client.node import Node, Request
from eventstore.redis_client.retries import Sender
from eventstore.redis_client.scripts import Argument, ScriptCall

IN_FLIGHT = 2
"""Pipelines under way at once to an engine: one is on the wire while the engine works on the other."""
COMMITS_PER_PIPELINE = 256
READS_PER_PIPELINE = 32
"""A read may answer with a page of a megabyte; so fewer of them go together."""
PIPELINE_BYTES = 16 * 1024 * 1024
"""A pipeline takes no more than this, except for a single call that is larger by itself."""


class _Waiting(Request):
    """A call that somebody waits for."""

    __slots__ = ("answer",)

    def __init__(self, call: ScriptCall, answer: asyncio.Future[tuple[Any, Any]]) -> None:
        super().__init__(call)
        self.answer: asyncio.Future[tuple[Any, Any]] = answer

    @property
    def size(self) -> int:
        return self.call.size if isinstance(self.call, ScriptCall) else 0

    def settle(self, reply: Any, confirmed: Any) -> None:
        if self.answer.done():
            return
        if isinstance(reply, Exception):
            self.answer.set_exception(reply)
        else:
            self.answer.set_result((reply, confirmed))


class _Queue:
    """What waits for one engine, and the pipelines that are under way there."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self.scheduled: bool = False


class ScriptPipeline:
    """Sends script calls. `run` gives the reply, and the durability that was reached (none without `confirmation`)."""

    def __init__(self, connection: RedisClient, confirmation: Confirmation | None = None) -> None:
        self._connection: RedisClient = connection
        self._sender: Sender = connection.sender
        self._confirmation: Confirmation | None = confirmation
        self._last: Sequence[Argument] = confirmation.command if confirmation else ()
        self._most: int = COMMITS_PER_PIPELINE if confirmation else READS_PER_PIPELINE
        self._queues: dict[Node, _Queue] = {}
        connection.topology.on_change.append(self._reroute)

    @property
    def confirms(self) -> bool:
        """Whether each commit has to be confirmed; without that its `durability` is known beforehand."""
        return bool(self._last)

    @property
    def durability(self) -> str:
        """What a commit reaches as a rule."""
        return self._confirmation.usual if self._confirmation else ""

    async def run(self, call: ScriptCall) -> tuple[Any, str]:
        """Raises `StoreUnavailable` or `StoreFull`; whether the call took effect is unknown after the former."""
        if not self._connection.topology.known:
            await self._sender.find()
        waiting = _Waiting(call, asyncio.get_running_loop().create_future())
        self._put(waiting)
        reply, confirmed = await waiting.answer
        return reply, self._confirmation.reached(confirmed) if self._confirmation else ""

    async def close(self) -> None:
        """Let go of the connection."""
        await self._connection.close()

    async def reply(self, call: ScriptCall) -> Any:
        """The reply alone."""
        return (await self.run(call))[0]

    def _put(self, waiting: _Waiting) -> None:
        node = self._sender.node(waiting)
        queue = self._queues.get(node) or self._queue(node)
        queue.waiting.append(waiting)
        if not queue.scheduled and len(queue.tasks) < IN_FLIGHT:
            queue.scheduled = True
            asyncio.get_running_loop().call_soon(self._leave, node, queue)

    def _queue(self, node: Node) -> _Queue:
        """A new one. Those of nodes that are gone go with their last call."""
        self._queues = {one: queue for one, queue in self._queues.items() if queue.waiting or queue.tasks}
        queue = self._queues[node] = _Queue()
        return queue

    def _leave(self, node: Node, queue: _Queue) -> None:
        queue.scheduled = False
        while queue.waiting and len(queue.tasks) < IN_FLIGHT:
            task = asyncio.create_task(self._send(node, self._take(queue.waiting)))
            queue.tasks.add(task)
            task.add_done_callback(lambda done: self._back(node, queue, done))

    def _take(self, waiting: deque[_Waiting]) -> list[_Waiting]:
        """What goes into the next pipeline, by count and bytes."""
        batch: list[_Waiting] = []
        room = PIPELINE_BYTES
        while waiting and len(batch) < self._most:
            room -= waiting[0].size
            if room < 0 and batch:
                break
            batch.append(waiting.popleft())
        return batch

    def _back(self, node: Node, queue: _Queue, task: asyncio.Task[None]) -> None:
        queue.tasks.discard(task)
        self._leave(node, queue)

    async def _send(self, node: Node, batch: list[_Waiting]) -> None:
        for left in await self._sender.send(node, batch, self._last):
            if left.pause:
                asyncio.get_running_loop().call_later(left.pause, self._put, left)
            else:
                self._put(left)

    def _reroute(self) -> None:
        """Other engines may serve what waits."""
        for queue in list(self._queues.values()):
            waiting, queue.waiting = queue.waiting, deque()
            for one in waiting:
                self._put(one)
