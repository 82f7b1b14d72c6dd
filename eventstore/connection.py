"""The one road to Redis: scripts by digest, reads, retries within a budget, and words for what can go wrong."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from eventstore.domain.errors import Overloaded, StoreFull, StoreUnavailable
from eventstore.scripts import Argument, Script, ScriptCall
from eventstore.tasks import end, heed_cancellation

log = logging.getLogger("layby.store")
_T = TypeVar("_T")

MAX_CONNECTIONS = 8
"""Commits and reads are pipelined, so a few connections carry everything, however many clients there are."""
RETRY_BUDGET_S = 2.0
"""How long a request goes on trying before it hears 503. An attempt that the engine leaves hanging may outlast it."""
SOCKET_TIMEOUT_S = 5.0
KNOCK_S = 1.0
"""How long an engine that is known to be down has to show that it is back."""

_PASSING = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.BusyLoadingError,
    redis_errors.ReadOnlyError,
    redis_errors.TryAgainError,
    redis_errors.ClusterDownError,
    redis_errors.MasterDownError,
    redis_errors.NoScriptError,  # flushed again between loading and running
    OSError,
)


class Connection:
    """A pool of connections to one Redis, shared by everything in this process."""

    def __init__(self, url: str, *, client: Redis | None = None, plain_scripts: bool = False) -> None:
        """`plain_scripts` leaves out the `#!lua` line, which fakeredis does not know."""
        # Any: the command methods of redis-py are generic, and typed for one of their two uses only.
        self._redis: Any = client or Redis(connection_pool=_pool(url))
        self._plain: bool = plain_scripts
        self._down: bool = False
        self._knocking: asyncio.Task[Exception | None] | None = None

    @property
    def client(self) -> Any:
        """For subscriptions and for what no method here covers."""
        return self._redis

    async def close(self) -> None:
        if self._knocking:
            await end(self._knocking)
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def command(self, *arguments: Argument) -> Any:
        """One command that is safe to repeat."""
        return await self._persist(lambda: self._redis.execute_command(*arguments))

    async def commands(self, batch: Sequence[Sequence[Argument]]) -> list[Any]:
        """Several commands that are safe to repeat, in one round trip."""

        async def send() -> list[Any]:
            pipe = self._redis.pipeline(transaction=False)
            for arguments in batch:
                pipe.execute_command(*arguments)
            return await pipe.execute()

        return await self._persist(send) if batch else []

    async def run(self, call: ScriptCall) -> Any:
        """Run one script. Every script of ours is safe to repeat."""
        (reply,) = await self.run_each([call])
        return reply

    async def run_each(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Run scripts in one round trip. Raises the first refusal among the replies."""
        replies = await self.run_all(calls)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def run_all(self, calls: Sequence[ScriptCall], last: Sequence[Argument] = ()) -> list[Any]:
        """Run scripts in one round trip; `last` is a command to end it with, whose reply comes last.

        What one of them alone was refused with stands in its place among the replies.
        """
        if not calls and not last:
            return []
        return await self._persist(lambda: self._send(calls, last))

    async def _send(self, calls: Sequence[ScriptCall], last: Sequence[Argument]) -> list[Any]:
        replies = await self._pipeline(calls, last)
        if missing := [call for call, reply in zip(calls, replies, strict=False) if _is_noscript(reply)]:
            # In the same breath, lest they be flushed again; those that ran before answer as repeats do.
            replies = await self._pipeline(calls, last, {call.script for call in missing})
        for reply in replies:
            if isinstance(reply, _PASSING):
                raise reply
        return [_explained(reply) if isinstance(reply, redis_errors.ResponseError) else reply for reply in replies]

    async def _pipeline(
        self, calls: Sequence[ScriptCall], last: Sequence[Argument], load: Collection[Script] = ()
    ) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for script in load:
            pipe.execute_command("SCRIPT", "LOAD", script.text if self._plain else script.source)
        for call in calls:
            pipe.execute_command("EVALSHA", self._sha(call.script), len(call.keys), *call.keys, *call.args)
        if last:
            pipe.execute_command(*last)
        replies = await pipe.execute(raise_on_error=False)
        for reply in replies[: len(load)]:
            if isinstance(reply, redis_errors.NoPermissionError):  # else it looks as if they were flushed for ever
                raise reply
        return replies[len(load) :]

    def _sha(self, script: Script) -> str:
        return script.plain_sha if self._plain else script.sha

    async def _persist(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Try until the budget is used up, with growing, jittered pauses.

        Raises `StoreUnavailable`, `StoreFull`, and `Overloaded` if no connection came free.
        """
        loop = asyncio.get_running_loop()
        # While the engine is known to be down, one try is enough to find out whether it is back.
        give_up, pause = loop.time() + (0.0 if self._down else RETRY_BUDGET_S), 0.01
        while True:
            try:
                if self._down:
                    await self._knock()
                result = await attempt()
            except _PASSING as error:
                if _is_exhausted(error):
                    raise Overloaded("every connection to the store is busy; try again in a moment") from None
                if loop.time() + pause > give_up:
                    raise self._unavailable(error) from None
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, 0.5)
            except redis_errors.ResponseError as error:
                raise _explained(error) from None
            else:
                heed_cancellation()
                self._recovered()
                return result

    async def _knock(self) -> None:
        """An engine that hangs takes a request in and never answers: do not spend a whole attempt on finding out. One
        question will do for all who want to know, so that it is not they who use up the connections."""
        if self._knocking is None or self._knocking.done():
            self._knocking = asyncio.create_task(self._ping())
        task = self._knocking
        await asyncio.wait({task}, timeout=KNOCK_S)  # not asyncio.timeout: redis-py may swallow its cancellation
        if not task.done():
            task.cancel()
        if not task.done() or task.cancelled():
            raise redis_errors.TimeoutError("no answer to a ping")
        if error := task.result():
            raise error

    async def _ping(self) -> Exception | None:
        """What keeps the engine from answering, if anything does."""
        try:
            await self._redis.execute_command("PING")
        except _PASSING as error:
            return error
        except redis_errors.ResponseError:  # a refusal is an answer
            pass
        return None

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        if not self._down:
            log.error("Redis does not answer (%s: %s); requests get 503 until it does", type(error).__name__, error)
        self._down = True
        return StoreUnavailable("the store does not answer; nothing was lost, send the request again")

    def _recovered(self) -> None:
        if self._down:
            log.warning("Redis answers again")
            self._down = False


def _pool(url: str) -> BlockingConnectionPool:
    pool: Any = BlockingConnectionPool  # its keyword arguments are untyped
    return pool.from_url(
        url,
        max_connections=MAX_CONNECTIONS,
        timeout=SOCKET_TIMEOUT_S,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=2,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


def _is_noscript(reply: Any) -> bool:
    return isinstance(reply, redis_errors.NoScriptError)


def _is_exhausted(error: Exception) -> bool:
    """Whether the pool gave no connection out in time: that says nothing of the engine."""
    return isinstance(error, redis_errors.ConnectionError) and str(error).startswith("No connection available")


def _full(error: Exception) -> StoreFull:
    log.error("Redis is out of memory (%s); free some, or raise maxmemory", error)
    return StoreFull("the store is out of memory; nothing was written")


def _explained(error: redis_errors.ResponseError) -> Exception:
    """Refusals that redis-py has no class for."""
    text = str(error)
    if "OOM" in text or "used memory" in text:
        return _full(error)
    if text.startswith(("MISCONF", "NOREPLICAS", "UNKILLABLE", "BUSY")):
        log.error("Redis refuses to write: %s", text)
        return StoreUnavailable("the store takes no writes at the moment; nothing was written")
    return error
