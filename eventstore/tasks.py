"""Ending background tasks."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended, however they take it.

    One cancellation is not always enough: code on the way may turn it into an error of its own (seen in redis-py while
    it waits for a connection), and a task that then goes on would never end.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=0.2)


def heed_cancellation() -> None:
    """Raise the cancellation that this task was sent and has not heard.

    Before Python 3.12, one that arrives just when a command has been sent is lost in `asyncio.wait_for`, which redis-py
    uses; whoever then waits without end would never hear of it.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError
