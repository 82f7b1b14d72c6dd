"""Clients that send what no client should, each about a session of its own, and what became of that session."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path

from proofs.client import Answer, Client
from proofs.hostile.cases import Cases
from proofs.hostile.exchange import Heard, Hostile, NotAnswered, send
from proofs.proof import Run
from proofs.servers import Server

CLIENTS = 8
REST_S = 3.0
"""After so long nothing is under way any more that a client has cut off."""
WARM = 0.2
"""The part of the run after which the server's memory is taken for what it needs."""
GROWTH_MIB = 96
"""What it may need beyond that, at the end."""


@dataclass(frozen=True, slots=True)
class _Resting:
    """A session whose last request was cut off: what it asked for may still come about."""

    ready_at: float
    session_id: str
    seq: int
    case: Hostile
    heard: Heard


class Fuzzing:
    """So many hostile requests to one server."""

    def __init__(self, run: Run, server: Server, wanted: int) -> None:
        self.sent = 0
        self.kinds: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self._run, self._server, self._wanted = run, server, wanted
        self._warm_mib = 0.0

    async def prove(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(self._client(number))
        grown = resident_mib(self._server.pid) - self._warm_mib
        self._run.figure(
            "memory of the server, after and before", f"{self._warm_mib + grown:.0f}, {self._warm_mib:.0f} MiB"
        )
        self._run.check(
            grown < GROWTH_MIB, f"the server's memory grew by {grown:.0f} MiB, from {self._warm_mib:.0f} MiB"
        )

    async def _client(self, number: int) -> None:
        chance = random.Random(f"{self._run.seed} {number}")
        async with self._server.client() as honest:
            cases, resting = Cases(chance), deque[_Resting]()
            cases.session_id, seq = await self._session(honest), 1
            while self.sent < self._wanted:
                case = cases.next()
                heard = await self._send(case, chance)
                if not case.writes:
                    continue
                if heard.cut or case.ends:
                    resting.append(_Resting(time.monotonic() + REST_S, cases.session_id, seq, case, heard))
                    cases.session_id, seq = await self._rested(honest, resting)
                else:
                    seq += await self._held(honest, cases.session_id, seq, case, heard)
            await asyncio.sleep(REST_S)
            for each in resting:
                await self._left_whole(honest, each)

    async def _session(self, honest: Client) -> str:
        answer = await honest.request("POST", "/v1/sessions", {})
        self._run.check(answer.status == 201, f"an honest client is refused: {answer}")
        return answer.json()["session_id"]

    async def _send(self, case: Hostile, chance: random.Random) -> Heard:
        self._count(case)
        try:
            heard = await send(self._server.port, case, chance)
        except NotAnswered:
            self._run.check(False, f"neither answered nor closed: {case}")
            raise
        for reply in heard.replies:
            self.statuses[reply.status] += 1
            self._judge(reply, case)
        return heard

    def _count(self, case: Hostile) -> None:
        self.sent += 1
        self.kinds[case.kind] += 1
        if self.sent == int(self._wanted * WARM):
            self._warm_mib = resident_mib(self._server.pid)
        if self.sent % max(1, self._wanted // 10) == 0:
            self._run.progress(f"{self.sent:,} of {self._wanted:,} hostile requests")

    def _judge(self, reply: Answer, case: Hostile) -> None:
        """No fault of the server's own, and every refusal in its form."""
        self._run.check(reply.status < 500, f"{reply.status} {reply.body[:300]!r} for {case}")
        self._run.check(not case.refused or reply.status == 400, f"{reply.status} for {case}")
        self._run.check("layby-request-id" in reply.headers, f"an answer without an id for {case}")
        if reply.status >= 400 and reply.body and not _is_zhin(reply):
            kind = reply.headers.get("content-type")
            told = kind == "application/problem+json" and json.loads(reply.body)["status"] == reply.status
            self._run.check(told, f"{reply.status} is no problem document for {case}: {reply.body[:300]!r}")

    async def _held(self, honest: Client, session_id: str, seq: int, case: Hostile, heard: Heard) -> int:
        """How many events it has left: what was refused none, what was taken all of its own."""
        grown = await self._grown(honest, session_id, seq, case)
        said = heard.appended
        self._run.check(grown == said, f"{grown} events came of it, {said} were said to, by {case}")
        self._run.check(case.events in (None, grown), f"{grown} events came of it, not {case.events}, by {case}")
        return grown

    async def _rested(self, honest: Client, resting: deque[_Resting]) -> tuple[str, int]:
        """A session that can be used: one in which nothing is under way any more, or a new one."""
        if resting and resting[0].ready_at <= time.monotonic():
            each = resting.popleft()
            return each.session_id, each.seq + await self._left_whole(honest, each)
        return await self._session(honest), 1

    async def _left_whole(self, honest: Client, each: _Resting) -> int:
        """The same of a request whose connection ended: it may have been taken without a word."""
        grown = await self._grown(honest, each.session_id, each.seq, each.case)
        said = each.heard.appended
        whole = each.case.events is None or grown in (0, said, each.case.events)
        self._run.check(grown >= said and whole, f"{grown} events came of it, {said} were said to, by {each.case}")
        return grown

    async def _grown(self, honest: Client, session_id: str, seq: int, case: Hostile) -> int:
        answer = await honest.request("GET", f"/v1/sessions/{session_id}")
        self._run.check(answer.status == 200, f"its session answers {answer} after {case}")
        return answer.json()["seq"] - seq


def _is_zhin(reply: Answer) -> bool:
    return reply.body.startswith(b'{"ok":false,"error":')


def resident_mib(pid: int) -> float:
    """The memory of a process that is in RAM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {pid} tells no VmRSS")
