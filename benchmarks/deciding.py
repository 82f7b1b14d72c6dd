"""An agent that asks in one session and waits, and people who decide: how long until the agent knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import Self

from benchmarks.connection import Connection, Heard
from benchmarks.load import get, post
from benchmarks.reader import Reader, heard
from benchmarks.sides import numbered, question, sessions
from proofs.servers import Server

PARKING_S = 0.02
"""Before each decision: who waits for it does so by then."""
APPROVE = json.dumps({"action": "approve"}).encode()


class Deciding:
    """One session, whose calls are asked and decided one after another. Times are in milliseconds, from just before
    the decision is sent."""

    def __init__(self, path: str, agent: Connection, deciders: list[Connection], reader: Reader) -> None:
        self._path, self._agent, self._deciders, self._reader = path, agent, deciders, reader
        self._names = numbered("call")

    @classmethod
    async def on(cls, stack: AsyncExitStack, server: Server, deciders: int) -> Self:
        """Its connections are closed with the stack."""
        [path] = await sessions(server, 1)
        agent, *others = [await Connection.to(server.port) for _ in range(1 + deciders)]
        reader, _ = await Reader.of(server.port, f"{path}/stream?from=now&types=input.completed")
        for one in (agent, *others, reader):
            stack.callback(one.close)
        return cls(path, agent, others, reader)

    async def waited(self, count: int) -> list[float]:
        """Until the agent, which waits with `GET …/calls/{iid}?wait_ms=60000`, has the call as it was decided."""
        return [await self._waited() for _ in range(count)]

    async def followed(self, count: int) -> list[float]:
        """Until a tail of the session has the event."""
        return [await self._followed() for _ in range(count)]

    async def alone(self) -> float:
        """Until one decision on a call is answered."""
        return (await self._decide(await self._ask())).ms

    async def at_once(self) -> float:
        """Until as many as there are deciders are answered, all on one call. Raises RuntimeError where not just one of
        them is applied."""
        call = await self._ask()
        answers = await asyncio.gather(*(self._decide(call, number) for number in range(len(self._deciders))))
        statuses = sorted(answer.status for answer in answers)
        if statuses != [200] + [409] * (len(answers) - 1):
            raise RuntimeError(f"decisions at once were answered {statuses}")
        return 1000 * (max(answer.at for answer in answers) - min(answer.sent for answer in answers))

    async def _waited(self) -> float:
        call = await self._ask()
        waiting = asyncio.create_task(self._agent.ask(get(f"{self._path}/calls/{call}?wait_ms=60000")))
        decided = await self._parked(self._decide(call))
        answer = await waiting
        if b"APPROVED_EXECUTING" not in answer.text:
            raise RuntimeError(f"the wait has ended without a decision: {answer.text!r}")
        return 1000 * (answer.at - decided.sent)

    async def _followed(self) -> float:
        call = await self._ask()
        wait = self._reader.listen(call.encode())
        decided = await self._parked(self._decide(call))
        [at] = await heard([wait])
        return 1000 * (at - decided.sent)

    async def _parked(self, decision: Awaitable[Heard]) -> Heard:
        await asyncio.sleep(PARKING_S)
        return await decision

    async def _ask(self) -> str:
        """A call that waits."""
        call = next(self._names)
        await self._agent.ask(post(f"{self._path}/events", json.dumps(question(call)).encode()))
        return call

    async def _decide(self, call: str, number: int = 0) -> Heard:
        """Each decider has a name of their own."""
        request = post(f"{self._path}/calls/{call}/decision", APPROVE, headers=f"Layby-Actor: person-{number}\r\n")
        return await self._deciders[number].ask(request, 409)
