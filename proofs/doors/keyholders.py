"""Keys of every kind: some made by the command line, as an operator makes them, the many straight in the store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eventstore.api_keys.keyring import Keyring
from eventstore.redis_client.client import RedisClient
from proofs.client import LINE_LIMIT, Answer, Client, opened
from proofs.doors.routes import SCOPES
from proofs.line import Goodbye, frame, opened_line
from proofs.servers import Server

TENANTS = ("acme", "bolt")
NEWCOMER = "cork"
"""A tenant that has nothing yet."""
ALL = ",".join(SCOPES)


@dataclass
class Keys:
    """By tenant and name; `all` has every scope, a scope's name has that one alone."""

    server: Server
    texts: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    changed_at: float = 0.0
    """When the last command had made or revoked one, by the monotonic clock."""

    async def make(self, tenant: str, name: str, scopes: str, *more: str) -> str:
        made = await asyncio.to_thread(
            self.server.layby, "keys", "create", "--name", name, "--scopes", scopes, "--tenant", tenant, "--json", *more
        )
        self.changed_at = time.monotonic()
        if made.returncode:
            raise RuntimeError(made.stdout + made.stderr)
        self.texts[tenant, name] = json.loads(made.stdout)["key"]
        return self.texts[tenant, name]

    async def revoke(self, tenant: str, name: str) -> None:
        done = await asyncio.to_thread(self.server.layby, "keys", "revoke", "--name", name, "--tenant", tenant)
        self.changed_at = time.monotonic()
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    async def make_all(self, tenants: Sequence[str]) -> None:
        """For each tenant one key of every scope, one of all, one that is revoked and one that has expired."""
        connection = RedisClient(self.server.environment["LAYBY_REDIS_URL"])
        try:
            keyring = Keyring(connection)
            for tenant in tenants:
                for name, scopes in (("all", SCOPES), *((scope, (scope,)) for scope in SCOPES), ("revoked", SCOPES)):
                    _, self.texts[tenant, name] = await keyring.create(name, scopes, tenant)
                await keyring.revoke("revoked", tenant)
                _, self.texts[tenant, "expired"] = await keyring.create("expired", SCOPES, tenant, 1)
        finally:
            await connection.close()

    def credentials(self, tenant: str) -> dict[str, str]:
        """Authorization headers that must open nothing, by what they are."""
        good = self.texts[tenant, "all"]
        wrong = good[:-8] + ("0" * 8 if not good.endswith("0" * 8) else "1" * 8)
        return {
            "no key": "",
            "wrong key": f"Bearer {wrong}",
            "garbled key": f"Bearer {secrets.token_hex(20)}",
            "empty key": "Bearer ",
            "other scheme": f"Basic {good}",
            "revoked key": f"Bearer {self.texts[tenant, 'revoked']}",
            "expired key": f"Bearer {self.texts[tenant, 'expired']}",
        }


async def ask(
    port: int,
    method: str,
    path: str,
    body: object,
    authorization: str,
    *,
    stream: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own; of a stream that begins, its head alone."""
    sent = {**({"Authorization": authorization} if authorization else {}), **(headers or {})}
    if not stream:
        async with Client(port, timeout_s=20) as client:
            return await client.request(method, path, body, headers=sent)
    async with opened(port, path, sent, limit_s=20) as (head, reader):
        length = int(head.headers.get("content-length", "0"))
        return replace(head, body=await asyncio.wait_for(reader.readexactly(length), 20))


@dataclass
class Held:
    """A request that stays open, until it is cut."""

    port: int
    path: str
    key: str
    cut_at: float = 0.0
    end: bytes = b""
    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=LINE_LIMIT)
        head = f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.key}\r\n"
        head += "Connection: close\r\n\r\n"
        writer.write(head.encode())
        if "wait_ms" not in self.path:
            await reader.readuntil(b"\r\n\r\n")
        self.began.set()
        while piece := await reader.read(1 << 16):
            self.end = (self.end + piece)[-2000:]
        self.cut_at = time.monotonic()
        writer.close()


@dataclass
class HeldLine(Held):
    """A line that stays open after its first message, until the server closes it."""

    code: int = 0
    """What the server closed it with."""

    async def run(self) -> None:
        async with opened_line(self.port, self.path, key=self.key) as line:
            await line.send(frame(b'{"id":"1","events":[{"type":"a.b"}]}'))
            self.end = json.dumps(await line.answer()).encode()
            self.began.set()
            with contextlib.suppress(OSError, EOFError):
                try:
                    await line.answer()
                except Goodbye as goodbye:
                    self.code = goodbye.code
        self.cut_at = time.monotonic()
