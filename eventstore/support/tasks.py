"""Tasks: ending them, and sharing what one finds out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, however they take it.

    One cancellation is not always enough: code on the way may turn it into an error of its own (seen in redis-py while
    it waits for a connection), and a task that then goes on would never end. Whoever is cancelled meanwhile is so
    afterwards.
    """
    running, cancelled = {task for task in tasks if not task.done()}, None
    while running:
        for task in running:
            task.cancel()
        try:
            _, running = await asyncio.wait(running, timeout=0.2)
        except asyncio.CancelledError as error:  # of the one who waits: nobody else would end them
            cancelled = error
    if cancelled:
        raise cancelled


def heed_cancellation() -> None:
    """Raise the cancellation that this task was sent and has not heard.

    Before Python 3.12, one that arrives just when a command has been sent is lost in `asyncio.wait_for`, which redis-py
    uses; whoever then waits without end would never hear of it.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


class Shared(Generic[_T]):
    """One reading for all who ask before it begins. Whoever asks while one is under way gets the next, so nobody is
    told what was so before they asked."""

    def __init__(self, read: Callable[[], Awaitable[_T]]) -> None:
        self._read: Callable[[], Awaitable[_T]] = read
        self._under_way: asyncio.Task[_T] | None = None
        self._next: asyncio.Task[_T] | None = None

    async def get(self) -> _T:
        """Raises what the reading raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._run(self._under_way))
            self._next.add_done_callback(_noted)
        return await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[_T] | None) -> _T:
        if before:
            await asyncio.wait({before})
        self._under_way, self._next = self._next, None
        return await self._read()


def _noted(task: asyncio.Task[Any]) -> None:
    """All who asked may have gone; then nobody else would look at the error."""
    if not task.cancelled():
        task.exception()
