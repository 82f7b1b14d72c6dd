"""One engine: a pool of connections to it, one round trip at a time, and whether it is known to be away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from eventstore.redis_client.connections import track
from eventstore.redis_client.round_trip import Packed, RoundTrips
from eventstore.redis_client.scripts import Argument, Script, ScriptCall
from eventstore.support.tasks import SingleFlight
from eventstore.support.timing import TIMING, Timing

log = logging.getLogger("layby.store")

MAX_CONNECTIONS = 8
"""Commits and reads are pipelined, so a few connections carry everything, however many clients there are."""
AT_ONCE = MAX_CONNECTIONS - 2
"""Round trips at once. Of the connections that are left, one listens for news, and one knocks."""
PATIENCE_S = 10.0
"""How long a round trip waits for its turn."""
ONLY = "Redis"
"""What an engine is called where there are no others."""

AWAY = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.BusyLoadingError,
    redis_errors.ReadOnlyError,
    redis_errors.ClusterDownError,
    redis_errors.MasterDownError,
    redis_errors.NoScriptError,  # flushed again between loading and running
    OSError,
)
"""What an engine answers, or does not, while it cannot serve: it passes."""


class Busy(Exception):
    """No turn came in time: that says nothing of the engine."""


class Request:
    """A script call or a command on its way. What it was answered with, or refused with, stands in `reply`."""

    __slots__ = ("asked", "call", "confirmed", "give_up", "pause", "reply")

    def __init__(self, call: ScriptCall | Sequence[Argument]) -> None:
        self.call: ScriptCall | Sequence[Argument] = call
        self.reply: Any = None
        self.confirmed: Any = None
        self.asked: Node | None = None
        """Whom a slot that is being moved names for it, this once."""
        self.give_up: float = 0.0
        """When it has been put off for long enough; 0 if it never was."""
        self.pause: float = 0.0
        """How long to wait before it is sent again."""

    @property
    def key(self) -> str | None:
        """A key of it, which tells where it must be sent; None if it does not matter."""
        if isinstance(self.call, ScriptCall):
            return self.call.keys[0] if self.call.keys else None
        key = self.call[1] if len(self.call) > 1 else None
        text = key.decode(errors="replace") if isinstance(key, bytes) else key
        return text if isinstance(text, str) and text.startswith("layby:") else None

    def settle(self, reply: Any, confirmed: Any) -> None:
        """It is answered; `confirmed` is the reply to the command that ended its pipeline."""
        self.reply, self.confirmed = reply, confirmed


class Node:
    """An engine at one address. `outages` counts how often it came back."""

    def __init__(self, client: Any, name: str = ONLY, *, plain_scripts: bool = False, timing: Timing = TIMING) -> None:
        """`plain_scripts` leaves out the `#!lua` line, which fakeredis does not know."""
        # Any: the command methods of redis-py are generic, and typed for one of their two uses only.
        self.client: Any = client
        self.name: str = name
        self.down: bool = False
        self._exchange: RoundTrips = RoundTrips(client.connection_pool)
        self._plain: bool = plain_scripts
        self._timing: Timing = timing
        self._probes: SingleFlight[None, Exception | None] = SingleFlight()
        self._turns: asyncio.Semaphore = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        await self._probes.close()
        await self.client.aclose()
        await self.client.connection_pool.disconnect()

    async def ask(
        self, requests: Sequence[Request], last: Sequence[Argument], load: Collection[Script] = ()
    ) -> list[Any]:
        """One round trip; `last` is a command to end it with. What one request alone is refused with stands in its
        place among the replies. Raises one of `AWAY`, `Busy`, `NoPermissionError`."""
        await self._take_turn()
        try:
            return await self._ask(requests, last, load)
        finally:
            self._turns.release()

    async def _take_turn(self) -> None:
        """In the order in which they came: redis-py's pool lets whoever comes last pass those who wait, so that some
        of many wait for ever."""
        was_down = self.down
        if was_down:
            await self._knock()
        await self._wait()
        if self.down and not was_down:  # meanwhile: all who wait find out together, not one after another
            self._turns.release()
            await self._knock()
            await self._wait()

    async def _wait(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()  # at once
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._turns.acquire()
        except TimeoutError:
            raise Busy from None

    async def _ask(self, requests: Sequence[Request], last: Sequence[Argument], load: Collection[Script]) -> list[Any]:
        commands: list[Packed] = [("SCRIPT", "LOAD", script.text if self._plain else script.source) for script in load]
        skipped: list[int] = []
        for request in requests:
            if request.asked:
                skipped.append(len(commands))
                commands.append(("ASKING",))
            commands.append(self._command(request.call))
        if last:
            commands.append(tuple(last))
        replies = await self._exchange.run(commands, self._timing.reply_s)
        for reply in replies[: len(load)]:
            if isinstance(reply, redis_errors.NoPermissionError):  # else it looks as if they were flushed for ever
                raise reply
        for number in reversed(skipped):
            del replies[number]
        del replies[: len(load)]
        for number, request in enumerate(requests):
            if not isinstance(request.call, ScriptCall):
                replies[number] = self._read(request.call[0], replies[number])
        return replies

    def _command(self, call: ScriptCall | Sequence[Argument]) -> Packed:
        if isinstance(call, ScriptCall):
            sha = call.script.plain_sha if self._plain else call.script.sha
            return ("EVALSHA", sha, len(call.keys), *call.keys, *call.args)
        return tuple(call)

    def _read(self, name: Argument, reply: Any) -> Any:
        """What redis-py makes of the reply to a command."""
        read = None if isinstance(reply, Exception) else self.client.response_callbacks.get(name)
        return read(reply) if read else reply

    async def _knock(self) -> None:
        """An engine that hangs takes a request in and never answers: do not spend a whole attempt on finding out. One
        question will do for all who want to know, so that it is not they who use up the connections."""
        task = self._probes.join(None, self._ping)
        # not asyncio.timeout: redis-py may swallow its cancellation
        await asyncio.wait({task}, timeout=self._timing.probe_s)
        if not task.done():
            task.cancel()
        if not task.done() or task.cancelled():
            raise redis_errors.TimeoutError("no answer to a ping")
        if error := task.result():
            raise error

    async def _ping(self) -> Exception | None:
        """What keeps the engine from answering, if anything does."""
        try:
            await self.client.execute_command("PING")
        except AWAY as error:
            return error
        except redis_errors.ResponseError:  # a refusal is an answer
            pass
        return None

    def gone(self, error: Exception) -> None:
        """It has not answered for as long as it is waited for."""
        if not self.down:
            why = f"{type(error).__name__}: {error}"
            log.error("%s does not answer (%s); requests get 503 until it does", self.name, why)
        self.down = True

    def answered(self) -> None:
        if self.down:
            log.warning("%s answers again", self.name)
            self.down = False


def connect(url: str, timing: Timing = TIMING) -> Any:
    """A client of one engine, with a few connections, that tries nothing twice by itself."""
    pool: Any = BlockingConnectionPool  # its keyword arguments are untyped
    return track(
        Redis(
            connection_pool=pool.from_url(
                url,
                max_connections=MAX_CONNECTIONS,
                timeout=timing.reply_s,
                socket_timeout=timing.reply_s,
                socket_connect_timeout=timing.connect_s,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        )
    )
