"""One round trip over a connection of redis-py: every command in one write, every reply read under one deadline.

redis-py's own pipelines pack commands in Python, whatever parser is installed, and set a timer for each reply, which
takes several times as long as all else that an append costs on the way to the engine.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import hiredis
from redis import exceptions as redis_errors

from eventstore.links import Link
from eventstore.scripts import Argument

Packed = tuple[Argument, ...]
"""A command and its arguments."""

pack: Callable[[Packed], bytes] = cast("Any", hiredis).pack_command
"""A command as it is sent. The stub of hiredis has it take a tuple of one."""


async def exchange(pool: Any, commands: Iterable[Packed], patience_s: float) -> list[Any]:
    """The replies to these commands, in their order. An error that one was answered with stands in its place.

    Raises errors of connections, among them `TimeoutError` of redis-py after `patience_s`; what was done is then
    unknown, and the connection is closed, so that nobody hears the replies of others.
    """
    packed = [pack(command) for command in commands]
    connection = await pool.get_connection()
    try:
        await connection.send_packed_command(b"".join(packed), check_health=False)
        async with asyncio.timeout(patience_s):
            read = connection.read_reply if isinstance(connection, Link) else partial(_read_reply, connection)
            return [await read() for _ in packed]
    except TimeoutError:
        raise redis_errors.TimeoutError("no answer in time") from None
    finally:
        await pool.release(connection)


async def _read_reply(connection: Any) -> Any:
    """From a connection that is not of our kind, such as a stand-in for tests has."""
    try:
        return await connection.read_response(timeout=math.inf)  # the one deadline is there already
    except redis_errors.ResponseError as error:
        return error
