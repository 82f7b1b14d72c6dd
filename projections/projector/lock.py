"""A lock in the store, for work that would only be wasted if two did it: safety never depends on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from eventstore.domain.errors import LaybyError
from eventstore.redis_client import scripts
from eventstore.redis_client.client import RedisClient
from eventstore.redis_client.scripts import ScriptCall
from eventstore.support.tasks import end

log = logging.getLogger("layby.projections")

HOLD = scripts.load("projections", "renew_lock")
HELD_MS = 10_000
"""How long a lock outlives a holder that was killed."""
RENEWED_S = 3.0
POLL_S = 0.1


class LockHeld(Exception):
    """Somebody else has the lock."""


@asynccontextmanager
async def locked(connection: RedisClient, key: str, mark: str, *, wait: bool = False) -> AsyncGenerator[None]:
    """Hold the lock, with a mark of one's own in it. Raises `LockHeld`, unless it is to be waited for."""
    while not await _acquire(connection, key, mark):
        if not wait:
            raise LockHeld(key)
        await asyncio.sleep(POLL_S)
    renewing = asyncio.create_task(_renew(connection, key, mark))
    try:
        yield
    finally:
        await end(renewing)
        await connection.run(ScriptCall(HOLD, [key], [mark, 0]))


async def _acquire(connection: RedisClient, key: str, mark: str) -> bool:
    if await connection.command("SET", key, mark, "NX", "PX", HELD_MS):
        return True
    return await connection.command("GET", key) == mark.encode()  # our own, if the first answer was lost


async def _renew(connection: RedisClient, key: str, mark: str) -> None:
    while True:
        await asyncio.sleep(RENEWED_S)
        try:
            if not await connection.run(ScriptCall(HOLD, [key], [mark, HELD_MS])):
                log.warning("the lock %s was lost; what it guards may now be done twice", key)
                return
        except LaybyError as error:
            log.info("the lock %s could not be renewed: %s", key, error.detail)
