"""One server process, from its first socket to its last answer."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn

from api import listening
from api.app import build
from api.listening import CannotListen
from api.live import HEARTBEAT_S, Live
from api.principal import Door
from api.services import Services
from api.switching import SwitchingProtocol
from eventstore.domain.errors import StoreUnavailable
from eventstore.embedded import EngineError, engine_url
from eventstore.eventstore import EventStore, open_store
from eventstore.fitness import UnfitEngine, check_url, tell_silence
from eventstore.keyring import Keyring
from eventstore.keyring_copy import KeyringCopy
from eventstore.settings import Settings
from eventstore.tasks import end
from projections.read_models import ReadModels

IN_FLIGHT_S: Final = 4
"""How long a stopping server waits for answers under way. With what follows it stays well below 10 s."""
CLOSING_S: Final = 1
"""How long read models, and then the store, may take to let go."""
YOUNG_OBJECTS: Final = 20_000
"""How many more objects than before there may be until cycles among them are looked for."""
KEEP_ALIVE_S: Final = 75
"""Longer than clients keep idle connections, so that it is they who close them, never just as a request leaves."""


class CannotServe(Exception):
    """The message is one line for the operator."""


def run(settings: Settings, *, heartbeat_s: float = HEARTBEAT_S) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0, or 2 where the operator has something to mend."""
    _configure_logging()
    _allow_many_connections()
    try:
        check_url(settings.redis_url or "")
        sockets = listening.bind(settings.host, settings.port)
        with contextlib.ExitStack() as stack:
            stack.callback(listening.close, sockets)
            stack.enter_context(asyncio.Runner(loop_factory=_new_loop)).run(_serve(settings, sockets, heartbeat_s))
    except (CannotServe, CannotListen, EngineError, UnfitEngine) as error:
        sys.stderr.write(f"layby: {error}\n")
        return 2
    return 0


async def _serve(settings: Settings, sockets: list[socket.socket], heartbeat_s: float) -> None:
    stopper = _Stopper()
    try:
        async with open_services(settings, heartbeat_s) as services:
            if services.door.open:
                listening.check_open(sockets, settings.host)
            server = _Server(_config(services), services)
            stopper.server = server
            _collect_less()
            await server.serve(sockets)
    except asyncio.CancelledError:
        if not stopper.asked:
            raise
    except OSError as error:  # two servers may bind the same port; only one gets to listen
        raise listening.explain(error, settings.host, settings.port) from None


@asynccontextmanager
async def open_services(settings: Settings, heartbeat_s: float) -> AsyncGenerator[Services]:
    """Engine, store and read models, started in this order and closed in the other."""
    async with engine_url(settings) as url:
        try:
            store = await open_store(url, settings)
        except StoreUnavailable as error:
            raise CannotServe(tell_silence(error, settings.redis_url)) from None
        async with _closing(store), _read_models(store) as models, _door(store, settings) as door:
            services = Services(store, models, settings, door, live=Live(heartbeat_s))
            services.metrics.watch(store)
            async with _running(services.live.patrol(door.admits)):
                yield services


@asynccontextmanager
async def _door(store: EventStore, settings: Settings) -> AsyncGenerator[Door]:
    """A door that knows the keys of now, and hears of those to come."""
    keyring = KeyringCopy(Keyring(store.connection), store.clock)
    try:
        await keyring.read()
    except StoreUnavailable as error:
        raise CannotServe(tell_silence(error, settings.redis_url)) from None
    async with _running(keyring.run()):
        yield Door(keyring)


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await end(task)


@asynccontextmanager
async def _read_models(store: EventStore) -> AsyncGenerator[ReadModels]:
    models = ReadModels(store)
    async with _closing(models):
        models.start()
        yield models


@asynccontextmanager
async def _closing(thing: EventStore | ReadModels) -> AsyncGenerator[None]:
    """Close it when the block is left, however that is; what does not let go in time is left to the end of the
    process."""
    try:
        yield
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await thing.close()


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


class _Stopper:
    """Hears the signals, from before the engine starts until everything is closed. The second one changes nothing."""

    def __init__(self) -> None:
        self.server: uvicorn.Server | None = None
        self.asked: bool = False
        self._task: asyncio.Task[None] | None = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._ask)

    def _ask(self) -> None:
        if self.asked:
            return
        self.asked = True
        if self.server is not None:
            self.server.should_exit = True
        elif self._task is not None:
            self._task.cancel()


class _Server(uvicorn.Server):
    """uvicorn, with our signals, our greeting, and an end to connections that never end by themselves."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
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


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _collect_less() -> None:
    """Most of what a request makes goes with the last reference to it. Looking for the rest as often as Python does by
    itself, and again and again through all that the server is made of, takes a tenth of the time of an append."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _allow_many_connections() -> None:
    """Each tail is a connection: take as many descriptors as the system gives."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft < hard else soft, hard))


def _configure_logging() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Every failure is told by `api.edge`; uvicorn would repeat it, and scold each stream that was cut.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
