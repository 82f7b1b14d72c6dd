"""One server process, from its first socket to its last answer. The engine starts while the rest is being imported."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from api.server import sockets as listening
from api.server.sockets import CannotListen
from eventstore.domain.errors import StoreUnavailable
from eventstore.embedded.engine import EngineError, engine_url
from eventstore.redis_client.url import UnfitEngine, check_url
from eventstore.settings import Settings
from eventstore.support.gc_tuning import lasting
from eventstore.support.timing import TIMING, Timing

if TYPE_CHECKING:
    from api.server.lifecycle import Server

YOUNG_OBJECTS = 20_000
"""How many more objects than before there may be until cycles among them are looked for."""


class CannotServe(Exception):
    """The message is one line for the operator."""


def run(settings: Settings, timing: Timing = TIMING) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0, or 2 where the operator has something to mend."""
    _configure_logging()
    _allow_many_connections()
    try:
        check_url(settings.redis_url or "")
        sockets = listening.bind(settings.host, settings.port)
        with contextlib.ExitStack() as stack:
            stack.callback(listening.close, sockets)
            stack.enter_context(asyncio.Runner(loop_factory=_new_loop)).run(_serve(settings, sockets, timing))
    except (CannotServe, CannotListen, EngineError, UnfitEngine) as error:
        sys.stderr.write(f"layby: {error}\n")
        return 2
    return 0


async def _serve(settings: Settings, sockets: list[socket.socket], timing: Timing) -> None:
    stopper = _Stopper()
    try:
        async with engine_url(settings, meanwhile=_import_the_rest) as url:
            from api.server.lifecycle import Server, open_services  # see _import_the_rest

            async with open_services(url, settings, timing) as services:
                if services.door.open:
                    listening.check_open(sockets, settings.host)
                stopper.server = Server(services)
                _collect_less()
                await stopper.server.serve(sockets)
    except asyncio.CancelledError:
        if not stopper.asked:
            raise
    except StoreUnavailable as error:
        from eventstore.redis_client.preflight import tell_silence  # as heavy as what has raised this

        raise CannotServe(tell_silence(error, settings.redis_url)) from None
    except OSError as error:  # two servers may bind the same port; only one gets to listen
        raise listening.explain(error, settings.host, settings.port) from None


def _import_the_rest() -> None:
    """Most of what a start takes."""
    with lasting():
        import_module("api.server.lifecycle")


class _Stopper:
    """Hears the signals, from before the engine starts until everything is closed. The second one changes nothing."""

    def __init__(self) -> None:
        self.server: Server | None = None
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
    # The error boundary logs every failure; uvicorn would log it again, and complain of each stream that was cut.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
