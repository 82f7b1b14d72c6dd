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
