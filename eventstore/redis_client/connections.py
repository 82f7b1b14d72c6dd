"""Connections of redis-py that say what has happened when they are lost in the middle of something.

A socket that the other end resets while a request is being written is closed under redis-py's hands. uvloop's
transports then raise a RuntimeError, and a connection that somebody else has closed meanwhile, such as with a node that
left, has no socket at all, which is an AttributeError. Neither is an error of Redis to redis-py, so that it would pass
for a fault of ours, and not for an engine that is away. Here both are what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection

_LOST = (RuntimeError, AttributeError)


class Link(AbstractConnection):
    """Everything that is sent goes through the first of these, and everything that is heard through the others."""

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        try:
            await super().send_packed_command(command, check_health)
        except _LOST as error:
            raise _explained(error) from error

    async def read_response(self, *args: Any, **options: Any) -> Any:
        read: Any = super().read_response  # what it gives is typed in part only
        try:
            return await read(*args, **options)
        except _LOST as error:
            raise _explained(error) from error

    async def exchange(self, data: bytes, count: int, heard: Callable[[], None]) -> list[Any]:
        """Send packed commands, and read so many replies, however long that takes; a refusal stands in its place.
        `heard` is called once they are sent, and between replies. The same can be done by the methods above, which set
        up a task and a timer for each. After an error, or where it was cancelled, the connection is closed."""
        writer, parser = self._open_ends
        try:
            writer.write(data)
            await writer.drain()
            replies = list[Any]()
            for _ in range(count):
                heard()
                replies.append(await parser.read_response())
            return replies
        except (OSError, *_LOST) as error:
            await self.disconnect(nowait=True)
            raise _explained(error) from error
        except BaseException:
            await self.disconnect(nowait=True)
            raise

    async def hear(self) -> Any:
        """What comes next, however long that takes; may be cancelled. Raises what it is, if it is a refusal."""
        try:
            _, parser = self._open_ends
            reply = await parser.read_response()
        except (OSError, *_LOST) as error:
            raise _explained(error) from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def is_quiet(self) -> bool:
        """Whether it can be used once more: it is open, and nothing has come that nobody asked for."""
        try:
            return self.is_connected and not await self.can_read()
        except (redis_errors.ConnectionError, OSError, *_LOST):
            return False

    @property
    def _open_ends(self) -> tuple[Any, Any]:
        """What is written to (None once it is closed), and what replies are read from."""
        return self._writer, self._parser  # the types of redis-py tell of neither what every one of theirs has


def _explained(error: Exception) -> redis_errors.ConnectionError:
    return redis_errors.ConnectionError(f"the connection was lost under way: {error}")


class _Tcp(Link, Connection):
    pass


class _Tls(Link, SSLConnection):
    pass


class _Socket(Link, UnixDomainSocketConnection):
    pass


_LINKS = {Connection: _Tcp, SSLConnection: _Tls, UnixDomainSocketConnection: _Socket}


def link(client: Any) -> Any:
    """The same client, whose connections from now on are of this kind; for one that has not connected yet."""
    pool = client.connection_pool
    pool.connection_class = _LINKS[pool.connection_class]
    return client
