"""Requests to several servers at once, each with the moments of its sending and its answer."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proofs.client import Answer, Client
from proofs.engines import EngineClient
from proofs.proof import Breach
from proofs.servers import Server

GIVE_UP_S = 60.0
Cut = Literal["no", "repeat", "leave"]
"""Whether the client cuts its connection before the answer: then it asks the other server again with the same
Idempotency-Key, or never learns what became of it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer, if there was one that tells what became of the request. `loose` tries came before the one that was
    answered, and may take effect later still. Times are monotonic, in nanoseconds."""

    answer: Answer | None
    invoked: int
    answered: int
    loose: int
    where: str


class Exchange:
    """Connections to all servers, as many as are needed at once."""

    def __init__(self, servers: Sequence[Server], chance: random.Random) -> None:
        self.servers, self.chance = servers, chance
        self.requests = self.cut = self.unknown = 0
        self._idle: list[list[Client]] = [[] for _ in servers]

    def close(self) -> None:
        for client in (client for idle in self._idle for client in idle):
            client.close()

    def some_server(self) -> int:
        return self.chance.randrange(len(self.servers))

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        server: int | None = None,
        cut: Cut = "no",
    ) -> Outcome:
        """Ask a server, or any. Raises `Breach` for an answer that no server may give."""
        at = self.some_server() if server is None else server
        sent = dict(headers or {})
        if cut == "repeat":
            sent["Idempotency-Key"] = uuid.uuid4().hex
        invoked, loose, where = time.monotonic_ns(), 0, f"server {at}"
        patience = None if cut == "no" else self.chance.choice((0.0, 0.001, 0.003, 0.01))
        answer = await self._try(at, method, path, body, sent, patience)
        while answer is None and cut == "repeat":
            at, loose = (at + 1) % len(self.servers), loose + 1
            where += f", cut, server {at}"
            answer = await self._try(at, method, path, body, sent, None)
            if answer is None and time.monotonic_ns() - invoked > GIVE_UP_S * 1e9:
                raise TimeoutError(f"{method} {path}: no answer within {GIVE_UP_S:.0f} s")
        self.unknown += answer is None
        return Outcome(answer, invoked, time.monotonic_ns(), loose, where)

    async def _try(
        self, at: int, method: str, path: str, body: Any, headers: dict[str, str], patience_s: float | None
    ) -> Answer | None:
        """One try; None if it cannot be said what became of it."""
        self.requests += 1
        client = self._idle[at].pop() if self._idle[at] else self.servers[at].client()
        try:
            async with asyncio.timeout(patience_s):
                answer = await client.request(method, path, body, headers=headers)
        except (OSError, EOFError, TimeoutError):
            self.cut += patience_s is not None
            return None
        self._idle[at].append(client)
        if answer.status == 503 or answer.problem == "request-in-progress":
            await asyncio.sleep(self.chance.uniform(0.0, 0.02))
            return None
        if answer.status >= 500:
            raise Breach(f"{method} {path} with {body} was answered {answer}")
        return answer


class EngineClock:
    """The engine's clock as this process can know it: between two bounds, from when it was asked."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._low, self._high = 1 << 62, -(1 << 62)
        self.sample()

    @property
    def uncertainty_ns(self) -> int:
        return self._high - self._low

    def sample(self) -> None:
        """Ask it: the narrowest of a few answers counts, and the bounds of all samples hold."""
        low, high = max((self._ask() for _ in range(5)), key=lambda bounds: bounds[0] - bounds[1])
        self._low, self._high = min(self._low, low), max(self._high, high)

    def _ask(self) -> tuple[int, int]:
        before = time.monotonic_ns()
        seconds, micros = self._engine.time()
        after = time.monotonic_ns()
        told = (int(seconds) * 1_000_000 + int(micros)) * 1000
        return told - after, told + 1000 - before

    def between(self, engine_ms: int) -> tuple[int, int]:
        """The monotonic moments between which the engine's clock reached this time."""
        return engine_ms * 1_000_000 - self._high, engine_ms * 1_000_000 - self._low
