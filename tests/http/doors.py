"""Keys for the servers of tests, made as `layby keys` makes them, and clients that carry them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from eventstore.api_keys.keyring import Keyring
from eventstore.domain.api_keys import SCOPES
from eventstore.embedded.engine import engine_url
from eventstore.redis_client.client import RedisClient
from tests.integration.stores import chosen

T = TypeVar("T")


class Doors:
    """The keyring of a server's store."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def make(
        self, name: str, scopes: str = ",".join(SCOPES), tenant: str = "default", lives_ms: int | None = None
    ) -> str:
        """A key that the server may not know yet."""
        return self._do(lambda keyring: keyring.create(name, scopes.split(","), tenant, lives_ms))[1]

    @contextmanager
    def open(
        self, name: str, scopes: str = ",".join(SCOPES), tenant: str = "default", lives_ms: int | None = None
    ) -> Iterator[Any]:
        """A client with a key of its own, which the server knows; whoever has none is shut out by then."""
        with self.client(self.make(name, scopes, tenant, lives_ms)) as client, self._server.client() as nobody:
            until(lambda: nobody.get("/openapi.json").status_code == 401)
            until(lambda: client.get("/openapi.json").status_code == 200)
            yield client

    def client(self, key: str) -> Any:
        client = self._server.client()
        client.headers["Authorization"] = f"Bearer {key}"
        return client

    def revoke(self, name: str, tenant: str = "default") -> None:
        self._do(lambda keyring: keyring.revoke(name, tenant))

    def _do(self, work: Callable[[Keyring], Awaitable[T]]) -> T:
        async def run() -> T:
            async with engine_url(chosen(data_dir=self._server.data_dir), share=True) as url:
                connection = RedisClient(url)
                try:
                    return await work(Keyring(connection))
                finally:
                    await connection.close()

        return asyncio.run(run())


def until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up, "did not come about"
        time.sleep(0.02)
