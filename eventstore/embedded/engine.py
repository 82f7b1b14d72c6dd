"""The private engine: a Valkey server that Layby starts for itself when no Redis is named.

It keeps its data in the data directory, listens on a unix socket alone, and lives no longer than the process
that started it. How it is held to that is in `docs/decisions/0002-embedded-engine.md`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from eventstore.embedded.data_directory import DataDirectory
from eventstore.embedded.errors import DataDirectoryInUse, EngineError
from eventstore.embedded.process import EngineProcess, ask, last_words
from eventstore.settings import Settings

__all__ = ["DataDirectoryInUse", "EmbeddedEngine", "EngineError", "engine_url", "is_private"]

log = logging.getLogger("layby.engine")

IN_USE_WAIT_S = 1.0
CALM_S = 30.0
UNANSWERED_S = 15.0
"""How long a command waits for the engine of a running server: longer than that server waits for an earlier engine."""
PAUSES_S = (0.0, 0.1, 0.5, 2.0, 5.0)


class EmbeddedEngine:
    """The engine of one data directory, kept running from `start` to `stop`.

    Call both from the same event loop: on Linux the engine dies with the thread that started it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._directory = DataDirectory(data_dir)
        self._socket: Path | None = None
        self._process: EngineProcess | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address, for redis-py. Stays the same when the engine has to be started again."""
        if self._socket is None:
            raise EngineError("the engine has not been started")
        return _url(self._socket)

    async def start(self, meanwhile: Callable[[], None] | None = None) -> str:
        """Start the engine, wait until it has loaded its data, and return its URL. `meanwhile` is called once it has
        begun to: work that needs no event loop, and no engine.

        Raises DataDirectoryInUse if another process has the directory, EngineError if the engine cannot run.
        """
        await self._take_directory(IN_USE_WAIT_S)
        return await self._start(meanwhile)

    async def start_if_free(self) -> str | None:
        """As `start`, but None at once if another process has the directory."""
        try:
            await self._take_directory(0)
        except DataDirectoryInUse:
            return None
        return await self._start()

    async def stop(self) -> None:
        """End the engine and give the directory free. Harmless if it does not run."""
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        if self._process is not None:
            await self._process.stop()
            self._process = None
        self._leave_directory()

    async def _start(self, meanwhile: Callable[[], None] | None = None) -> str:
        try:
            self._socket = self._directory.place_socket()
            self._process = await EngineProcess.launch(self._directory, self._socket, meanwhile)
        except OSError as error:
            self._leave_directory()
            raise EngineError(f"the data directory {self._directory.path} cannot be used: {error}") from error
        except BaseException:
            self._leave_directory()
            raise
        self._keeper = asyncio.create_task(self._keep_running(self._process, self._socket))
        return self.url

    async def _take_directory(self, patience_s: float) -> None:
        """Lock the directory. A holder that was just killed gets a moment to vanish."""
        self._directory.create()
        clock = asyncio.get_running_loop().time
        end = clock() + patience_s
        lock = self._directory.server_lock
        while not _acquired(self._directory):
            if clock() >= end:
                raise DataDirectoryInUse(
                    f"the data directory {self._directory.path} is in use by process {lock.holder()}:"
                    " stop that one, or choose another --data-dir"
                )
            await asyncio.sleep(0.02)
        lock.name_holder(os.getpid())

    def _leave_directory(self) -> None:
        if self._directory.server_lock.descriptor >= 0:
            self._directory.clear_address()
            self._directory.server_lock.close()
        self._socket = None

    async def _keep_running(self, process: EngineProcess, socket: Path) -> None:
        """Start the engine again whenever it ends, the more slowly the sooner it ends."""
        clock = asyncio.get_running_loop().time
        strikes = 0
        while True:
            born = clock()
            code = await process.wait()
            strikes = 0 if clock() - born > CALM_S else strikes + 1
            log.error(
                "the embedded engine ended (code %d) and is being started again%s; its log is %s",
                code, last_words(self._directory), self._directory.log,
            )  # fmt: skip
            process = self._process = await self._relaunch(socket, strikes)
            log.info("the embedded engine runs again, as process %d", process.pid)

    async def _relaunch(self, socket: Path, strikes: int) -> EngineProcess:
        while True:
            await asyncio.sleep(PAUSES_S[min(strikes, len(PAUSES_S)) - 1] if strikes else 0)
            try:
                return await EngineProcess.launch(self._directory, socket)
            except (EngineError, OSError) as error:
                log.error("%s", error)
                strikes += 1


@asynccontextmanager
async def engine_url(
    settings: Settings, *, share: bool = False, fresh: bool = False, meanwhile: Callable[[], None] | None = None
) -> AsyncGenerator[str, None]:
    """The URL of the store: the Redis that the settings name, else an embedded engine, stopped on leaving.

    `meanwhile`: see `EmbeddedEngine.start`; it is called where a Redis is named as well, but not with `share`.

    `share` is for commands that may run beside a server: if one has the data directory its engine is used,
    and a directory without data is an EngineError rather than made, unless it may be `fresh`.
    """
    if settings.redis_url is not None:
        if meanwhile is not None:
            meanwhile()
        yield settings.redis_url
        return
    engine, directory = EmbeddedEngine(settings.data_dir), DataDirectory(settings.data_dir)
    if share and not fresh and not directory.has_data():
        raise EngineError(f"there is no Layby data in {directory.path}: check --data-dir")
    try:
        yield await (_shared(engine, directory) if share else engine.start(meanwhile))
    finally:
        await engine.stop()


def is_private(settings: Settings) -> bool:
    """Whether it is this process that runs the engine, within `engine_url`, so that no server can be on it."""
    return settings.redis_url is None and DataDirectory(settings.data_dir).server_lock.holder() == str(os.getpid())


async def _shared(engine: EmbeddedEngine, directory: DataDirectory) -> str:
    """The running server's engine, once it has loaded; or `engine`, started, if no server runs."""
    clock = asyncio.get_running_loop().time
    end = clock() + UNANSWERED_S
    while clock() < end:
        if url := await engine.start_if_free():
            return url
        socket = directory.socket()
        answer = await ask(socket, "PING") if socket else ""
        if socket and answer.startswith("+PONG"):
            return _url(socket)
        if answer:  # it loads its data, however long that takes
            end = clock() + UNANSWERED_S
        await asyncio.sleep(0.1)
    raise EngineError(
        f"a server, process {directory.server_lock.holder()}, has {directory.path}, and its engine does not answer:"
        f" look at {directory.log}, or stop that server"
    )


def _acquired(directory: DataDirectory) -> bool:
    try:
        return directory.server_lock.acquire()
    except OSError as error:
        raise EngineError(f"the data directory {directory.path} cannot be used: {error.strerror}") from error


def _url(socket: Path) -> str:
    return "unix://" + quote(str(socket))
