"""Real engines for tests, whatever event loops come and go."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from eventstore.embedded.data_directory import Lock
from eventstore.embedded.engine import EmbeddedEngine
from eventstore.embedded.process import find_binary

PATIENCE_S = 20


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for something outside of any event loop."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


class HeldEngine:
    """An embedded engine in a thread of its own, which starts it again whenever it is killed."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.url = ""
        self._ready = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._hold()))

    async def _hold(self) -> None:
        engine = EmbeddedEngine(self.data_dir)
        try:
            self.url = await engine.start()
        finally:
            self._ready.set()
        await asyncio.to_thread(self._over.wait)
        await engine.stop()

    def start(self) -> str:
        self._thread.start()
        self._ready.wait(PATIENCE_S)
        assert self.url, "the engine did not start"
        return self.url

    def stop(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    @property
    def pid(self) -> int:
        """The process that runs now; 0 while it is being replaced."""
        holder = Lock(self.data_dir / "engine.lock").holder()
        return int(holder) if holder.isdigit() else 0

    def kill(self) -> int:
        """End the engine as a crash would; it comes back by itself. The pid that is gone."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        return pid

    @contextmanager
    def frozen(self) -> Generator[None]:
        """The engine hangs: connections stay open, nothing answers."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def held_engine(data_dir: Path) -> Generator[HeldEngine]:
    engine = HeldEngine(data_dir)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster_node(folder: Path) -> Generator[str]:
    """The URL of a cluster of one node, with every slot."""
    port, bus = free_port(), free_port()
    options = {
        "port": port, "cluster-port": bus, "bind": "127.0.0.1", "dir": folder, "save": "",
        "cluster-enabled": "yes", "cluster-config-file": folder / "nodes.conf",
    }  # fmt: skip
    command = [str(find_binary()), *(str(part) for name, value in options.items() for part in (f"--{name}", value))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with Redis(port=port, decode_responses=True) as redis:
            eventually(lambda: _answers(redis))
            redis.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            eventually(lambda: _serves_all(redis))
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def _serves_all(redis: Redis) -> bool:
    told: Any = redis.execute_command("CLUSTER INFO")
    return told["cluster_state"] == "ok"


def _answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False
