"""Tasks: ending them, sharing the result of one, and repeating background work whatever it raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, Never, TypeVar

from eventstore.domain.errors import LaybyError

FAULT_PAUSE_S = 1.0
"""How long a background loop pauses after a fault, so that one that lasts fills neither the log nor the processor."""

_Key = TypeVar("_Key", bound=Hashable)
_T = TypeVar("_T")


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, however they take it.

    One cancellation is not always enough: code on the way may turn it into an error of its own (seen in redis-py while
    it waits for a connection), and a task that then goes on would never end. A cancellation of the caller takes effect
    once they have ended.
    """
    running, cancelled = {task for task in tasks if not task.done()}, None
    while running:
        for task in running:
            task.cancel()
        try:
            _, running = await asyncio.wait(running, timeout=0.2)
        except asyncio.CancelledError as error:  # of the caller: nobody else would end the tasks
            cancelled = error
    if cancelled:
        raise cancelled


def heed_cancellation() -> None:
    """Raise the cancellation of this task that a library has swallowed.

    Before Python 3.12, one that arrives just when a command has been sent is lost in `asyncio.wait_for`, which redis-py
    uses; a task that then waits without end would never be cancelled.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


class SingleFlight(Generic[_Key, _T]):
    """At most one task a key at a time, whose result all callers of that key share.

    Await the task of `join` or `join_next` through `asyncio.shield`: a caller that is cancelled must not end it for the
    others. What the work raises reaches each of them; where all of them have gone it is dropped.
    """

    def __init__(self) -> None:
        self._running: dict[_Key, asyncio.Task[_T]] = {}
        self._next: dict[_Key, asyncio.Task[_T]] = {}

    def join(self, key: _Key, work: Callable[[], Coroutine[Any, Any, _T]]) -> asyncio.Task[_T]:
        """The task that runs for this key, or else a new one."""
        if (task := self._running.get(key)) is None or task.done():
            task = self._running[key] = asyncio.create_task(work())
            task.add_done_callback(partial(self._over, key))
        return task

    def join_next(self, key: _Key, work: Callable[[], Coroutine[Any, Any, _T]]) -> asyncio.Task[_T]:
        """A task that has not begun yet: it waits for the running one, so that no caller gets a result that is older
        than its call."""
        if (task := self._next.get(key)) is None:
            task = self._next[key] = asyncio.create_task(self._after(self._running.get(key), key, work))
            task.add_done_callback(partial(self._over, key))
        return task

    async def _after(
        self, before: asyncio.Task[_T] | None, key: _Key, work: Callable[[], Coroutine[Any, Any, _T]]
    ) -> _T:
        if before:
            await asyncio.wait({before})
        self._running[key] = self._next.pop(key)
        return await work()

    async def close(self) -> None:
        """End every task."""
        await end(*self._running.values(), *self._next.values())

    def _over(self, key: _Key, task: asyncio.Task[_T]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled():
            task.exception()  # retrieved, in case nobody waits any more


async def supervise(
    work: Callable[[], Awaitable[object]],
    log: logging.Logger,
    *,
    failed: str,
    put_off: str | None = None,
    expected: type[Exception] | tuple[type[Exception], ...] = LaybyError,
    on_expected: Callable[[Exception], object] = lambda _: None,
    recover: Callable[[], None] = lambda: None,
    pause_s: Callable[[], float] = lambda: 0.0,
) -> Never:
    """Repeat `work` until this is cancelled, whatever it raises: a failure must never end a background loop.

    An `expected` error, such as a store that is unavailable, is handed to `on_expected`, and logged if there is a line
    `put_off`, whose `%s` it fills; then `pause_s()` seconds pass. Any other error is a fault of Layby: `failed` is
    logged with the traceback, and `FAULT_PAUSE_S` pass. Before the next attempt `recover` is called.
    """
    while True:
        try:
            await work()
            continue
        except expected as error:
            if put_off:
                log.info(put_off, error)
            on_expected(error)
            pause = pause_s()
        except Exception:
            log.exception(failed)
            pause = FAULT_PAUSE_S
        recover()
        await asyncio.sleep(pause)
