"""Round trips over the connections of a redis-py pool: every command in one write, every reply read under one deadline,
which moves on while replies come in.

redis-py's own pipelines pack commands in Python, whatever parser is installed, set a timer for each reply, and give
their connection back to a pool that takes longer to hand one out than an engine takes to answer. All of that is several
times what else an append costs on its way to the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import hiredis
from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection

from eventstore.redis_client.connections import WithoutTimers, is_quiet
from eventstore.redis_client.scripts import Argument

Packed = tuple[Argument, ...]
"""A command and its arguments."""

pack: Callable[[Packed], bytes] = cast("Any", hiredis).pack_command
"""A command as it is sent. The stub of hiredis has it take a tuple of one."""


class RoundTrips:
    """Keeps the connections that the pool gave it, as many as there were round trips at once: the pool counts them as
    being in use, and closes them with its own."""

    def __init__(self, pool: Any) -> None:
        self._pool: Any = pool
        self._idle: list[AbstractConnection] = []

    async def run(self, commands: Iterable[Packed], patience_s: float) -> list[Any]:
        """The replies to these commands, in their order. An error that one was answered with stands in its place.

        Raises redis-py's errors of connections, among them `TimeoutError` where the next reply takes longer than
        `patience_s` seconds; whether the commands took effect is then unknown. All replies together may take longer.
        """
        packed = [pack(command) for command in commands]
        connection = await self._take()
        try:
            replies = await _send_and_read(connection, packed, patience_s)
        except BaseException:  # a cancellation too: replies that are still to come must not be read by the next caller
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)
            raise
        self._idle.append(connection)
        return replies

    async def _take(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if await is_quiet(connection):
                return connection
            await self._pool.release(connection)  # which connects it again when it is next needed
        return await self._pool.get_connection()


async def _send_and_read(connection: AbstractConnection, packed: Sequence[bytes], patience_s: float) -> list[Any]:
    replies: list[Any] = []
    try:
        async with asyncio.timeout(patience_s) as deadline:
            postpone = _postponed(deadline, patience_s)
            with WithoutTimers(connection):
                await connection.send_packed_command(b"".join(packed), check_health=False)
                for _ in packed:
                    postpone()
                    try:
                        replies.append(await connection.read_response())
                    except redis_errors.ResponseError as refusal:
                        replies.append(refusal.with_traceback(None))  # else it holds this frame, which holds it
    except TimeoutError:
        raise redis_errors.TimeoutError("no answer in time") from None
    return replies


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
