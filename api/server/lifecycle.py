"""What a server process serves with: the store, the read models and the keys behind it, and uvicorn in front.

All that is heavy is imported here, and by `process.py` only once the engine is on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

import uvicorn

from api.app import build
from api.http.authentication import Authenticator
from api.server import sockets as listening
from api.services import Services
from api.streaming.open_responses import OpenResponses
from api.transport.protocol_upgrade import SwitchingProtocol
from eventstore.api_keys.cache import KeyringCache
from eventstore.api_keys.keyring import Keyring
from eventstore.event_store import EventStore, open_store
from eventstore.redis_client.client import RedisClient
from eventstore.settings import Settings
from eventstore.support.tasks import end
from eventstore.support.timing import TIMING, Timing
from projections.read_models import ReadModels

IN_FLIGHT_S: Final = 4
"""How long a stopping server waits for answers under way. With what follows it stays well below 10 s."""
CLOSING_S: Final = 1
"""How long read models, and then the store, may take to let go."""
KEEP_ALIVE_S: Final = 75
"""Longer than clients keep idle connections, so that it is they who close them, never just as a request leaves."""

_Closable = TypeVar("_Closable", RedisClient, EventStore, ReadModels)


@asynccontextmanager
async def open_services(url: str, settings: Settings, timing: Timing = TIMING) -> AsyncGenerator[Services]:
    """Store, read models and keys, started in this order and closed in the other.

    Raises `UnfitEngine` and `StoreUnavailable`.
    """
    async with (
        _closing(RedisClient(url, timing=timing)) as client,
        _closing(await open_store(client, settings)) as store,
        _read_models(client, store) as models,
        _door(client, store, timing) as door,
    ):
        live = OpenResponses(timing.heartbeat_s)
        services = Services(store, models, settings, door, live=live)
        services.metrics.watch(store)
        async with _running(live.patrol(door.admits)):
            yield services


@asynccontextmanager
async def _door(client: RedisClient, store: EventStore, timing: Timing) -> AsyncGenerator[Authenticator]:
    """A door that knows the keys of now, and hears of those to come."""
    keyring = KeyringCache(Keyring(client), store.clock, timing)
    await keyring.read()
    async with _running(keyring.run()):
        yield Authenticator(keyring)


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await end(task)


@asynccontextmanager
async def _read_models(client: RedisClient, store: EventStore) -> AsyncGenerator[ReadModels]:
    async with _closing(ReadModels(client, store)) as models:
        models.start()
        yield models


@asynccontextmanager
async def _closing(opened: _Closable) -> AsyncGenerator[_Closable]:
    """Close it when the block is left, however that is; what takes too long is left to the end of the process."""
    try:
        yield opened
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await opened.close()


class Server(uvicorn.Server):
    """uvicorn, with our signals, our greeting, and an end to connections that never end by themselves."""

    def __init__(self, services: Services) -> None:
        super().__init__(_config(services))
        self._services: Services = services

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        addresses = " and ".join(map(listening.url, sockets or []))
        sys.stdout.write(f"Layby listens on {addresses}, {self._services.door}\n")
        sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._services.stop()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # of clients that do not read
            connection.transport.abort()


def _config(services: Services) -> uvicorn.Config:
    return uvicorn.Config(
        build(services),
        http=SwitchingProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=IN_FLIGHT_S,
    )
