"""Round trips over the connections of a pool of redis-py: every command in one write, every reply read under one
deadline, which moves on while replies come in.

redis-py's own pipelines pack commands in Python, whatever parser is installed, set a timer for each reply, and give
their connection back to a pool that takes longer to hand one out than an engine takes to answer. All of that is several
times what else an append costs on its way to the engine.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import hiredis
from redis import exceptions as redis_errors

from eventstore.redis_client.connections import Link
from eventstore.redis_client.scripts import Argument

Packed = tuple[Argument, ...]
"""A command and its arguments."""

pack: Callable[[Packed], bytes] = cast("Any", hiredis).pack_command
"""A command as it is sent. The stub of hiredis has it take a tuple of one."""


class Exchange:
    """Keeps the connections that it was given by the pool, as many as there were round trips at once: the pool counts
    them as being in use, and closes them with its own."""

    def __init__(self, pool: Any) -> None:
        self._pool: Any = pool
        self._idle: list[Link] = []

    async def run(self, commands: Iterable[Packed], patience_s: float) -> list[Any]:
        """The replies to these commands, in their order. An error that one was answered with stands in its place.

        Raises errors of connections, among them `TimeoutError` of redis-py where the next reply takes longer than
        `patience_s`; what was done is then unknown, and the connection is closed, so that nobody hears the replies of
        others. Many large replies may take longer than that in all, over a slow road.
        """
        packed = [pack(command) for command in commands]
        connection = await self._take()
        try:
            async with asyncio.timeout(patience_s) as deadline:
                if isinstance(connection, Link):
                    return await connection.exchange(b"".join(packed), len(packed), _postponed(deadline, patience_s))
                return await _exchange(connection, packed)
        except TimeoutError:
            raise redis_errors.TimeoutError("no answer in time") from None
        finally:
            if isinstance(connection, Link) and connection.is_connected:
                self._idle.append(connection)
            else:
                await self._pool.release(connection)

    async def _take(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if await connection.is_quiet():
                return connection
            await self._pool.release(connection)  # which connects it again when it is next needed
        return await self._pool.get_connection()


def _postponed(deadline: asyncio.Timeout, patience_s: float) -> Callable[[], None]:
    """Grants as long again from now on; seldom by setting another timer, since most replies come at once."""
    clock = asyncio.get_running_loop().time
    granted = clock()

    def postpone() -> None:
        nonlocal granted
        if (now := clock()) - granted > patience_s / 8:
            granted = now
            deadline.reschedule(now + patience_s)

    return postpone


async def _exchange(connection: Any, packed: list[bytes]) -> list[Any]:
    """Over a connection that is not of our kind, such as a stand-in for tests has."""
    await connection.send_packed_command(b"".join(packed), check_health=False)
    return [await _read_reply(connection) for _ in packed]


async def _read_reply(connection: Any) -> Any:
    try:
        return await connection.read_response(timeout=math.inf)  # the one deadline is there already
    except redis_errors.ResponseError as error:
        return error
