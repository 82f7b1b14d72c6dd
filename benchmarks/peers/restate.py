"""Restate (npm: @restatedev/restate-server, @restatedev/restate-sdk): a handler parks on an awakeable, a client
resolves it.

A single node with its defaults: 24 partitions, and the replicated log with one replica, whose log server syncs its
write-ahead log before it says that a record is stored (`rocksdb-disable-wal-fsync = false`). Telemetry is off; at its
start it asks GitHub for its newest version all the same, and does not mind to get no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.peers import loopback, node
from proofs.client import Client
from proofs.engines import free_port

DECISION = {"action": "approve", "by": "anna"}
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
PARKING_S = 0.05

_SETTINGS = """
node-name = "peer"
disable-telemetry = true
listen-mode = "tcp"
log-filter = "warn"
bind-address = "127.0.0.1:{node}"
advertised-address = "http://127.0.0.1:{node}/"

[ingress]
bind-address = "127.0.0.1:{ingress}"
advertised-address = "http://127.0.0.1:{ingress}/"

[admin]
bind-address = "127.0.0.1:{admin}"
advertised-address = "http://127.0.0.1:{admin}/"
disable-web-ui = true
"""


def missing() -> str:
    """Why it cannot run here, "" where it can."""
    if lacking := node.missing():
        return lacking
    return "" if _binaries() else "Restate has no server for this kind of machine"


def _binaries() -> list[Path]:
    return list(node.MODULES.glob("@restatedev/restate-server-*/bin/restate-server"))


@dataclass(frozen=True, slots=True)
class Round:
    """From sending the decision, in milliseconds."""

    handler_ms: float
    """Until the code that waited has it. Restate has stored the decision by then."""
    invoker_ms: float
    """Until who called the handler has its answer. Restate has stored the handler's output by then, too."""


@dataclass(frozen=True, slots=True)
class Restate:
    """A server and a service that run."""

    ingress: int
    admin: int
    pid: int
    service_pid: int
    asked: IO[bytes]

    async def decided_after(self, count: int, *, suspended: bool = False) -> list[float]:
        """For each of so many rounds, in milliseconds: from sending the resolve request until the client that invoked
        the handler, and waits for it, has the whole answer.

        Two things at least are synced to the disk meanwhile, one after another: the decision, and what the handler
        returns.
        """
        return [one.invoker_ms for one in await self.rounds(count, suspended=suspended)]

    async def rounds(self, count: int, *, suspended: bool = False) -> list[Round]:
        """So many decisions, one after another, each for a new invocation that is parked before the clock starts.

        A handler keeps its connection for a minute of waiting, and the decision is sent down that. `suspended`: it has
        let go, as one does that waits for a person, and is called again, to replay what it did before.
        """
        async with Client(self.ingress) as invoker, Client(self.ingress) as decider, Client(self.admin) as admin:
            return [await self._round(invoker, decider, admin if suspended else None) for _ in range(count)]

    async def _round(self, invoker: Client, decider: Client, admin: Client | None) -> Round:
        handler = "suspended" if admin else "connected"
        answer = asyncio.create_task(_posted(invoker, f"/decisions/{handler}", {}))
        asked = json.loads(await _line(self.asked))
        await (_suspended(admin, asked["invocation"]) if admin else asyncio.sleep(PARKING_S))
        sent = time.perf_counter_ns()
        await _posted(decider, f"/restate/awakeables/{asked['awakeable']}/resolve", DECISION)
        heard, ended = await answer
        return Round((int(heard["heard_ns"]) - sent) / 1e6, (ended - sent) / 1e6)


async def _line(pipe: IO[bytes]) -> bytes:
    """The next line, of a pipe that has one at a time. Raises TimeoutError."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe, heard.set)
    try:
        async with asyncio.timeout(loopback.PATIENCE_S):
            await heard.wait()
    finally:
        loop.remove_reader(pipe)
    return pipe.readline()


async def _posted(client: Client, path: str, body: Any) -> tuple[Any, int]:
    """The parsed answer, and when it was here. Raises RuntimeError where it is no success."""
    answer = await client.request("POST", path, body, headers=JSON)
    now = time.perf_counter_ns()
    if answer.status >= 300:
        raise RuntimeError(f"POST {path}: {answer}")
    return (answer.json() if answer.body else None), now


async def _suspended(admin: Client, invocation: str) -> None:
    query = f"SELECT status FROM sys_invocation WHERE id = '{invocation}'"
    async with asyncio.timeout(loopback.PATIENCE_S):
        while (await _posted(admin, "/query", {"query": query}))[0]["rows"] != [{"status": "suspended"}]:
            await asyncio.sleep(0.02)


@contextlib.contextmanager
def running() -> Generator[Restate]:
    """Server and service for the length of the block; their data go with them. Raises RuntimeError where one of them
    does not start."""
    ingress, admin, service_port = free_port(), free_port(), free_port()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="layby-peer-")))
        service = stack.enter_context(_service(folder, service_port))
        server = stack.enter_context(_server(folder, ingress, admin))
        uri = json.dumps({"uri": f"http://127.0.0.1:{service_port}/"}).encode()
        loopback.request("POST", admin, "/deployments", uri)
        assert service.stdout
        yield Restate(ingress, admin, server.pid, service.pid, service.stdout)


@contextlib.contextmanager
def _service(folder: Path, port: int) -> Generator[subprocess.Popen[bytes]]:
    log = folder / "service.log"
    with loopback.process(node.script("restate_service.mjs", port), log, piped=True) as started:
        assert started.stdout
        if started.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the service did not become ready: {log.read_text()[-2000:]}")
        yield started


@contextlib.contextmanager
def _server(folder: Path, ingress: int, admin: int) -> Generator[subprocess.Popen[bytes]]:
    settings, log = folder / "settings.toml", folder / "server.log"
    settings.write_text(_SETTINGS.format(node=free_port(), ingress=ingress, admin=admin))
    command = [_binaries()[0], "--no-logo", "--config-file", settings, "--base-dir", folder / "data"]
    with loopback.process(command, log) as started:
        loopback.until(lambda: _answers(admin, "/health") and _answers(ingress, "/restate/health"), started, log)
        yield started


def _answers(port: int, path: str) -> bool:
    loopback.request("GET", port, path)
    return True
