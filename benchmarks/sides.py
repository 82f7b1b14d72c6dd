"""What is measured: Layby servers, and what they are filled with."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from proofs.client import Client
from proofs.servers import Server, running

LAYBY = "Layby"
EVENT: dict[str, Any] = {"type": "message.appended", "data": {"text": "x" * 100, "index": 1, "role": "assistant"}}
SINGLE, BATCH = json.dumps(EVENT).encode(), json.dumps([EVENT] * 100).encode()
MOST_IN_A_BATCH = 1_000
_T = TypeVar("_T")
_Item = TypeVar("_Item")


@contextlib.contextmanager
def layby(folder: Path, *, redis_url: str = "", **settings: str) -> Generator[Server]:
    """A server, with an engine of its own (every write synced before it is answered) unless it is given one."""
    server = Server(folder, redis_url=redis_url, settings=settings)
    with running(server):
        yield server


async def asked(client: Client, method: str, path: str, body: Any = None) -> Any:
    """The parsed answer. Raises RuntimeError where it is no success."""
    answer = await client.request(method, path, body, headers={"Content-Type": "application/json"})
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer}")
    return answer.json() if answer.body else None


async def each(
    server: Server, items: Iterable[_Item], act: Callable[[Client, _Item], Awaitable[_T]], at_once: int = 16
) -> list[_T]:
    """Do this for each of them, some at once; what came of it, in no order."""
    waiting, done = iter(items), list[_T]()

    async def work() -> None:
        async with server.client() as client:
            for item in waiting:
                done.append(await act(client, item))

    await asyncio.gather(*(work() for _ in range(at_once)))
    return done


async def sessions(server: Server, count: int, events: int = 1) -> list[str]:
    """The paths of so many new sessions, with so many events each."""

    async def make(client: Client, _: int) -> str:
        return await grown(client, events)

    return await each(server, range(count), make)


async def grown(client: Client, events: int) -> str:
    """The path of a new session with so many events; in each thousand of them there is one turn."""
    path = f"/v1/sessions/{(await asked(client, 'POST', '/v1/sessions', {}))['session_id']}"
    missing = events - 1
    while missing:
        size = min(missing, MOST_IN_A_BATCH)
        await asked(client, "POST", f"{path}/events", _batch(size))
        missing -= size
    return path


def _batch(events: int) -> list[dict[str, Any]]:
    """As many as they become: a turn that is begun and ended makes five (two of its own, two of its step, one that
    waits)."""
    turn = [{"type": "turn.started"}, {"type": "turn.completed"}] if events >= 5 else []
    return [*turn, *[EVENT] * (events - 5 if turn else events)]


def spoken(word: str) -> dict[str, Any]:
    """An event of the usual size with this word in it."""
    return {**EVENT, "data": {**EVENT["data"], "text": f"{word:100}"}}


def question(interrupt_id: str) -> dict[str, Any]:
    """An event that asks for a decision."""
    data = {"interrupt_id": interrupt_id, "tool_name": "refund_order", "tool_args": {"order": 1042, "amount": 49.9}}
    return {"type": "input.requested", "data": data}


def numbered(name: str) -> Iterator[str]:
    """Names of one length, none twice, none the beginning of another."""
    return (f"{name}-{number:07d}" for number in itertools.count())


async def at_rest(server: Server) -> None:
    """Wait until the read models have taken everything in."""
    async with server.client() as client:
        while any((await asked(client, "GET", "/readyz"))["projectors"].values()):
            await asyncio.sleep(0.1)
