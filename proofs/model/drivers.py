"""Two ways to the same service: a server process over HTTP, and the application called in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from proofs.client import Answer
from proofs.engines import Engine
from proofs.servers import Server

PARTITIONS = 3
_T = TypeVar("_T")


class Driver(Protocol):
    """What a model is compared with. It blocks: each request is answered before the next one is sent."""

    restarts: int

    def request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer: ...

    def restart(self) -> None:
        """End it as an operator would, and start it again."""
        ...

    def kill(self) -> None:
        """End as much of it as can be with SIGKILL, its engine at least; and start that again."""
        ...

    def abandon(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send a request, and kill before it was answered; or just after, who knows."""
        ...

    def close(self) -> None: ...


class OverHttp:
    """A `layby serve` that runs."""

    def __init__(self, server: Server) -> None:
        self.restarts = 0
        self._server = server
        self._client = server.client(timeout_s=60)
        self._runner = asyncio.Runner()

    def request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return self._runner.run(self._client.request(method, path, body, headers=headers))

    def restart(self) -> None:
        self._server.stop()
        self._start()

    def kill(self) -> None:
        self._server.kill()
        self._start()

    def abandon(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        async def cut() -> None:
            sent = asyncio.create_task(self._client.request(method, path, body, headers=headers))
            await asyncio.sleep(0.002)  # now it may be anywhere
            self._server.kill("server")
            with contextlib.suppress(OSError, EOFError, ValueError):
                await sent

        self._runner.run(cut())
        self._server.kill("both")
        self._start()

    def _start(self) -> None:
        self._client.close()
        self._server.start()
        self.restarts += 1

    def let_go(self) -> None:
        """Of the connection; the server goes on."""
        self._client.close()
        self._runner.close()

    def close(self) -> None:
        self.let_go()
        self._server.end()


class InProcess:
    """The application on an engine of its own, without sockets and without another process."""

    def __init__(self, engine: Engine, *, background: bool = True, **settings: Any) -> None:
        """Without `background` it projects what it is asked for, and nothing else."""
        self.restarts = 0
        self._engine, self._background, self._settings = engine, background, settings
        self._runner = asyncio.Runner()
        self._open()

    def _open(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        opening = application(self._engine.url, background=self._background, **self._settings)
        self._app: Any = self.run(self._stack.enter_async_context(opening))

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(work)

    async def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return await called(self._app, method, path, body, headers)

    def request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return self.run(self.send(method, path, body, headers))

    def restart(self) -> None:
        self._runner.run(self._stack.aclose())
        self._open()
        self.restarts += 1

    def kill(self) -> None:
        """The engine, that is; this process goes on."""
        self._engine.kill()
        self._engine.start()
        self.restarts += 1

    def abandon(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        async def cut() -> None:
            sent = asyncio.create_task(called(self._app, method, path, body, headers))
            await asyncio.sleep(0.001)  # now it may be anywhere
            await asyncio.to_thread(self.kill)
            await sent

        self._runner.run(cut())

    def close(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()


@contextlib.asynccontextmanager
async def application(redis_url: str, *, background: bool = True, **more: Any) -> AsyncGenerator[Any]:
    """The whole of a server, but for its sockets."""
    from api.app import build
    from api.server.lifecycle import open_services
    from eventstore.settings import Durability, Settings

    settings = Settings(redis_url=redis_url, partitions=PARTITIONS, durability=Durability("memory"), **more)
    async with open_services(redis_url, settings) as services:
        if not background:
            await services.read_models.close()
        yield build(services)


async def called(app: Any, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    """One request to an ASGI application."""
    place, _, query = path.partition("?")
    sent = {"host": "127.0.0.1", "content-length": str(len(body)), **headers}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": method,
        "path": unquote(place), "raw_path": place.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *parts = messages
    known = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], known, b"".join(part.get("body", b"") for part in parts))
