"""Connections of redis-py that report a connection lost in the middle of an operation as redis-py's `ConnectionError`.

A socket that the other end resets while a request is being written is closed underneath redis-py. uvloop's transports
then raise a RuntimeError. A connection that another task has closed meanwhile, such as one to a node that left the
cluster, has no socket at all, which is an AttributeError. redis-py passes both on, so each would look like a fault of
our own code instead of an engine that is away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection

_LOST = (RuntimeError, AttributeError)


class TrackedConnection(AbstractConnection):
    """Translates these errors in everything that redis-py writes and reads, its own handshake included."""

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        try:
            await super().send_packed_command(command, check_health)
        except _LOST as error:
            raise _explained(error) from error

    # Spelled out: passing `*args, **options` on would double what this override adds to each reply.
    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 # redis-py's own signature
        *,
        disconnect_on_error: bool = True,
        push_request: bool | None = False,
    ) -> Any:
        read: Any = super().read_response  # what it returns is typed in part only
        try:
            return await read(
                disable_decoding, timeout, disconnect_on_error=disconnect_on_error, push_request=push_request
            )
        except _LOST as error:
            raise _explained(error) from error


def _explained(error: Exception) -> redis_errors.ConnectionError:
    return redis_errors.ConnectionError(f"the connection was lost under way: {error}")


class WithoutTimers:
    """While this is entered, reads and writes of a connection set no timer of their own: the caller has one deadline
    for all of them, or none.

    redis-py sets a timer for each read and, before Python 3.12, a task for each write, which may also lose the
    cancellation that a deadline sends. `timeout=math.inf` would spare the reads alone, and turn a connection that the
    network gave up (ETIMEDOUT) into the reply None.
    """

    __slots__ = ("_connection", "_timeout")

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection: AbstractConnection = connection
        self._timeout: float | None = connection.socket_timeout

    def __enter__(self) -> None:
        self._connection.socket_timeout = None

    def __exit__(self, *_: object) -> None:
        self._connection.socket_timeout = self._timeout


async def is_quiet(connection: AbstractConnection) -> bool:
    """Whether a connection can be used once more: it is open, and holds nothing that has not been read."""
    try:
        return connection.is_connected and not await connection.can_read()
    except (redis_errors.ConnectionError, OSError, *_LOST):
        return False


class _Tcp(TrackedConnection, Connection):
    pass


class _Tls(TrackedConnection, SSLConnection):
    pass


class _Socket(TrackedConnection, UnixDomainSocketConnection):
    pass


_LINKS = {Connection: _Tcp, SSLConnection: _Tls, UnixDomainSocketConnection: _Socket}


def track(client: Any) -> Any:
    """The same client, whose connections are of this kind from now on; for one that has not connected yet."""
    pool = client.connection_pool
    pool.connection_class = _LINKS[pool.connection_class]
    return client
