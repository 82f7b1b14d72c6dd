"""One engine, and what it takes to start and end several together."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self, cast

from redis import Redis
from redis.exceptions import RedisError

from eventstore.embedded.process import find_binary

PATIENCE_S = 30.0
NODE_TIMEOUT_MS = 1_000
"""How long a node of a cluster, or a master, is silent before the others take it for dead."""

EngineClient = Any
"""A client of redis-py. Any: its command methods are typed for both of their uses, blocking and not, so that what they
give fits neither."""

DURABLE = {
    "appendonly": "yes", "appendfsync": "always", "save": "", "maxmemory-policy": "noeviction",
    "notify-keyspace-events": "Ex", "repl-diskless-sync-delay": 0,
}  # fmt: skip


def eventually(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Wait until this holds; gives what it gave. Where a node does not answer, it does not."""
    end = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(RedisError, OSError, LookupError):
            if found := condition():
                return found
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience_s:.0f} s")
        time.sleep(0.02)


def free_port() -> int:
    """A port below those that the system gives to outgoing connections: it is still free when an engine comes back."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Engine:
    """One process. It can be killed or frozen, and started again on the same port with the same data."""

    def __init__(self, folder: Path, *, binary: str | Path | None = None, **options: object) -> None:
        """`binary` is a Valkey, or another server such as /usr/bin/redis-server; `options` are lines of its
        configuration, with `_` for `-` (of more than one word as a tuple). Without any it keeps an append-only file
        that is synced always."""
        self.folder: Path = folder
        self.port: int = free_port()
        self.binary: Path = Path(binary or find_binary())
        self.options: dict[str, Any] = {**DURABLE, **{k.replace("_", "-"): v for k, v in options.items()}}
        self.process: subprocess.Popen[bytes] | None = None
        self.client: EngineClient = Redis(port=self.port, decode_responses=True, socket_timeout=5, protocol=2)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it has loaded its data and answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, f"an engine on port {self.port}, see {self.folder}/log")

    def _command(self) -> list[str]:
        options: dict[str, Any] = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "logfile": "log",
            **self.options,
        }
        arguments = [str(self.binary)]
        for name, value in options.items():
            words = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            arguments += [f"--{name}", *map(str, words)]
        return arguments

    def _answers(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"the engine on port {self.port} ended at once, see {self.folder}/log")
        return bool(self.client.ping())

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def freeze(self) -> None:
        """It hangs: its connections stay open, nothing answers."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self.client.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Group:
    """Engines that are started together, and end together, even if not all of them came up."""

    def members(self) -> Iterable[Engine]:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        for one in self.members():
            one.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_primary(node: Engine) -> bool:
    return node.client.info("replication")["role"] == "master"


def is_linked(node: Engine) -> bool:
    about = node.client.info("replication")
    return about["role"] == "slave" and about["master_link_status"] == "up" and not about["master_sync_in_progress"]
