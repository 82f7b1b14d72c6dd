"""What all parts work with: a server on an engine, what it holds (memory, descriptors, connections), and accounts."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from proofs.client import Answer, Client, expect, page_through
from proofs.engines import Engine
from proofs.proof import CannotRun, Run
from proofs.servers import Server

MB = 1 << 20
PATIENCE_S = 20.0
LOAD = "load.event"


class Stage:
    """One run: its engine, and a server on it with the settings that users get."""

    def __init__(self, run: Run, engine: Engine, server: Server) -> None:
        self.run: Run = run
        self.engine: Engine = engine
        self.server: Server = server

    def connections(self) -> int:
        """How many the engine has, our own aside."""
        return len(self.engine.client.client_list()) - 1


class Accounts:
    """What became of each append: those that were acknowledged must be there, those that were refused must not."""

    def __init__(self, run: Run) -> None:
        self.run: Run = run
        self.acknowledged: dict[str, set[int]] = {}
        self.refused: dict[str, set[int]] = {}
        self.took_ms: list[float] = []

    async def append(self, client: Client, session_id: str, number: int, filler: str = "") -> Answer:
        """Append one numbered event. Raises `Breach` where the answer is neither success nor a proper refusal."""
        body = {"type": LOAD, "data": {"n": number, "filler": filler}}
        began = time.monotonic()
        answer = await client.request("POST", events(session_id), body)
        if answer.status == 201:
            self.took_ms.append(1000 * (time.monotonic() - began))
            self.acknowledged.setdefault(session_id, set()).add(number)
            return answer
        self.run.check(answer.status in (503, 507), f"an append under pressure heard {answer}")
        retry = answer.headers.get("retry-after", "")
        self.run.check(answer.status == 507 or retry.isdigit(), f"503 without Retry-After: {answer.headers}")
        self.refused.setdefault(session_id, set()).add(number)
        return answer

    async def judge(self, client: Client, session_id: str, *, unknown: bool = False) -> None:
        """Compare with the log. Where `unknown`, what was refused may be there: a 503 of a store that went away in
        the middle says nothing of what it did last."""
        found = await page_through(client, session_id)
        seqs = [event["seq"] for event in found]
        dense = seqs == list(range(1, len(seqs) + 1))
        self.run.check(dense, f"session {session_id}: the log is not dense: {seqs[:20]}…")
        numbers = [event["data"]["n"] for event in found if event["type"] == LOAD]
        self.run.check(len(set(numbers)) == len(numbers), f"session {session_id}: an event stands there twice")
        there, wanted = set(numbers), self.acknowledged.get(session_id, set())
        self.run.check(wanted <= there, f"session {session_id}: acknowledged and gone: {sorted(wanted - there)[:5]}")
        extra = there - wanted - (self.refused.get(session_id, set()) if unknown else set())
        self.run.check(not extra, f"session {session_id}: refused, and there all the same: {sorted(extra)[:5]}")


class Memory:
    """How much the resident memory of a process grew while a block ran, in MB: at its highest, and at the end."""

    def __init__(self, pid: int) -> None:
        self._pid: int = pid
        self.before: float = _status(pid, "VmRSS")
        self.peak: float = 0.0
        self.after: float = 0.0
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the highest is counted from here on

    def close(self) -> None:
        self.peak = _status(self._pid, "VmHWM") - self.before
        self.after = _status(self._pid, "VmRSS") - self.before

    def __str__(self) -> str:
        return f"{self.before:.0f} MB, +{self.peak:.0f} at most, +{self.after:.0f} afterwards"


@contextmanager
def memory_of(server: Server) -> Generator[Memory]:
    """Measure a block."""
    memory = Memory(server.pid)
    try:
        yield memory
    finally:
        with contextlib.suppress(OSError):
            memory.close()


def _status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024


def descriptors(server: Server) -> int:
    """How many files and sockets it has open."""
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def prepare() -> None:
    """Many connections need many descriptors, here as there. Raises `CannotRun` where processes cannot be measured."""
    if not Path("/proc/self/clear_refs").exists():
        raise CannotRun("memory and descriptors of a process are read from /proc, which this system does not have")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def room_for(connections: int) -> int:
    """As many of these as the system lets a process have."""
    return min(connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)


async def create(server: Server, *session_ids: str) -> None:
    waiting = iter(session_ids)

    async def work() -> None:
        async with server.client() as client:
            for session_id in waiting:
                expect(await client.request("POST", "/v1/sessions", {"session_id": session_id}), 201)

    await asyncio.gather(*(work() for _ in range(16)))


async def eventually(run: Run, holds: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Wait until this holds; a breach if it does not."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        run.check(time.monotonic() < give_up, otherwise())
        await asyncio.sleep(0.05)


def events(session_id: str) -> str:
    return f"/v1/sessions/{session_id}/events"


def head(server: Server, path: str, accept: str = "application/x-ndjson") -> bytes:
    """A GET as it goes over the wire."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAccept: {accept}\r\n\r\n".encode()


def sluggish(server: Server, request: bytes) -> socket.socket:
    """A connection whose answer nobody reads; the system takes in as little of it as it can."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", server.port))
    made.sendall(request)
    return made
