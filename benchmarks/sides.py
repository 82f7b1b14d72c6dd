"""What is measured: Layby servers, what they publish, and how busy each process is meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proofs.client import Client
from proofs.servers import Server, running

LAYBY = "Layby"
EVENT: dict[str, Any] = {"type": "message.appended", "data": {"text": "x" * 100, "index": 1, "role": "assistant"}}
SINGLE, BATCH = json.dumps(EVENT).encode(), json.dumps([EVENT] * 100).encode()


@contextlib.contextmanager
def layby(folder: Path, *, redis_url: str = "", **settings: str) -> Iterator[Server]:
    """A server, with an engine of its own (every write synced before it is answered) unless it is given one."""
    server = Server(folder, redis_url=redis_url, settings=settings)
    with running(server):
        yield server


async def sessions(server: Server, count: int) -> list[str]:
    """The paths of so many new sessions."""
    async with server.client() as client:
        made = [await asked(client, "POST", "/v1/sessions", {}) for _ in range(count)]
    return [f"/v1/sessions/{one['session_id']}" for one in made]


async def asked(client: Client, method: str, path: str, body: Any = None) -> Any:
    """The parsed answer. Raises RuntimeError where it is no success."""
    answer = await client.request(method, path, body, headers={"Content-Type": "application/json"})
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer}")
    return answer.json() if answer.body else None


async def grown(client: Client, events: int) -> str:
    """The path of a new session with about so many events, a few of them turns."""
    base = f"/v1/sessions/{(await asked(client, 'POST', '/v1/sessions', {}))['session_id']}"
    turn, written = [{"type": "turn.started"}, {"type": "turn.completed"}], 1
    while written < events:
        batch = [*turn, *[EVENT] * max(1, min(995, events - written) - 5)]
        written = (await asked(client, "POST", f"{base}/events", batch))["last_seq"]
    return base


class Busy:
    """How much of one core each of some processes took, between two looks (Linux)."""

    def __init__(self, **processes: int) -> None:
        """Names and pids; this process, the load, is added."""
        self._processes = {**processes, "load": os.getpid()}
        self.look()

    def look(self) -> dict[str, float]:
        """Cores, since the last look."""
        now, spent = time.monotonic(), {name: _cpu_seconds(pid) for name, pid in self._processes.items()}
        since = getattr(self, "_at", now)
        before = getattr(self, "_spent", spent)
        self._at, self._spent = now, spent
        return {name: (spent[name] - before[name]) / max(now - since, 1e-9) for name in spent}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shares(busy: dict[str, float]) -> str:
    """As a note tells it."""
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in busy.items())
