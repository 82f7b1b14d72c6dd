"""One publisher and many readers: how long each of them waits for each event."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable

from benchmarks.connection import Connection
from benchmarks.limits.hop import SETTLING_S
from benchmarks.load import post
from benchmarks.reader import Reader, heard
from benchmarks.sides import numbered, spoken

Times = Callable[[int], Awaitable[list[float]]]
"""Takes so many events one after another; gives the milliseconds that each of them, or each reader of each, took."""


async def audience(
    stack: contextlib.AsyncExitStack, publish: tuple[int, str], follow: tuple[int, str], readers: int = 1
) -> Times:
    """What publishes to this port and path, while so many follow that one; all is closed with the stack.

    The clock starts just before a publish is sent. The next one is not sent before each reader has this one.
    """
    (port, path), words = publish, numbered("word")
    publisher, listening = await Connection.to(port), [(await Reader.of(*follow))[0] for _ in range(readers)]
    for one in (publisher, *listening):
        stack.callback(one.close)

    async def publish_one() -> list[float]:
        word = next(words)
        waits = [reader.listen(word.encode()) for reader in listening]
        await asyncio.sleep(SETTLING_S)
        answer = await publisher.ask(post(path, json.dumps(spoken(word)).encode()))
        return [(at - answer.sent) * 1000 for at in await heard(waits)]

    async def times(count: int) -> list[float]:
        return [taken for _ in range(count) for taken in await publish_one()]

    return times
