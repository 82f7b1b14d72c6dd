"""Lines whose clients say what no client should, and lines whose clients read nothing; and what became of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from proofs.client import Client
from proofs.hostile.exchange import ANSWERED_S, pieces
from proofs.hostile.fuzzing import CLIENTS
from proofs.hostile.line_cases import LineCases, Talk
from proofs.line import CLOSE, Goodbye, Line, frame, opened_line
from proofs.proof import Run
from proofs.servers import Server

OUR_FAULT = 1011
NORMAL = 1000


@dataclass(slots=True)
class Heard:
    """What a client heard: answers, and the code of the goodbye; 0 if there was none."""

    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    code: int = 0

    @property
    def taken(self) -> int:
        """Events that were appended, as the answers say."""
        return sum(answer["last_seq"] - answer["first_seq"] + 1 for answer in self.answers if "problem" not in answer)


class Lines:
    """So many talks with one server."""

    def __init__(self, run: Run, server: Server, wanted: int) -> None:
        self.said = 0
        self.kinds: Counter[str] = Counter()
        self.codes: Counter[int] = Counter()
        self._run, self._server, self._wanted = run, server, wanted
        self._left: list[tuple[str, Talk, Heard]] = []

    async def prove(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(self._client(number))

    async def _client(self, number: int) -> None:
        chance = random.Random(f"{self._run.seed} line {number}")
        cases = LineCases(chance)
        async with self._server.client() as honest:
            while self.said < self._wanted:
                self.said += 1
                talk, name = cases.next(), await session(self._run, honest)
                self.kinds[talk.kind] += 1
                heard = await self._talk(name, talk, chance)
                self._judge(talk, heard)
                if talk.ends:
                    self._left.append((name, talk, heard))
                else:
                    grown = await events_of(self._run, honest, name)
                    self._run.check(grown == heard.taken, f"{grown} events, {heard.taken} were said to, by {talk}")

    async def _talk(self, name: str, talk: Talk, chance: random.Random) -> Heard:
        heard = Heard()
        try:
            async with asyncio.timeout(ANSWERED_S), opened_line(self._server.port, line_of(name)) as line:
                writing = asyncio.create_task(_write(line, talk, chance))
                with contextlib.suppress(OSError, EOFError):
                    await _hear(line, talk, heard)
                await writing
        except TimeoutError:
            self._run.check(False, f"{len(heard.answers)} of {talk.answers} answers came, and no end, to {talk}")
        self.codes[heard.code] += 1
        return heard

    def _judge(self, talk: Talk, heard: Heard) -> None:
        check, told = self._run.check, f"{len(heard.answers)} answers and {heard.code} came of {talk}"
        check(heard.code != OUR_FAULT, f"the server says that it was at fault: {talk}")
        for answer in heard.answers:
            problem = answer.get("problem")
            check(problem is None or 400 <= problem["status"] < 500, f"{answer} came of {talk}")
        if not talk.ends:
            check(len(heard.answers) == talk.answers, told)
            check(heard.code in (talk.codes or (NORMAL,)), told)
            check(heard.taken == sum(talk.batches or ()), f"{heard.taken} events, of {talk.batches}, by {talk}")

    async def judge_left(self) -> None:
        """What was under way when a client left has been taken or not by now: no half batch, and none out of order."""
        async with self._server.client() as honest:
            for name, talk, heard in self._left:
                grown = await events_of(self._run, honest, name)
                whole = talk.batches is None or grown in accumulate(talk.batches, initial=0)
                told = f"{grown} events, {heard.taken} were said to, of {talk.batches}, by {talk}"
                self._run.check(grown >= heard.taken and whole, told)


async def _write(line: Line, talk: Talk, chance: random.Random) -> None:
    with contextlib.suppress(OSError):  # a refusal may come before all is sent
        for piece in pieces(talk.data, chance):
            await line.send(piece)
            await asyncio.sleep(0)
        if talk.ends:
            line.writer.write_eof()


async def _hear(line: Line, talk: Talk, heard: Heard) -> None:
    try:
        while talk.ends or talk.codes or len(heard.answers) < talk.answers:
            heard.answers.append(await line.answer())
        await line.send(frame(NORMAL.to_bytes(2), CLOSE))
        heard.answers.append(await line.answer())
    except Goodbye as goodbye:
        heard.code = goodbye.code


def line_of(session_id: str) -> str:
    return f"/v1/sessions/{session_id}/publish?producer=p"


async def session(run: Run, honest: Client) -> str:
    answer = await honest.request("POST", "/v1/sessions", {})
    run.check(answer.status == 201, f"an honest client is refused: {answer}")
    return answer.json()["session_id"]


async def events_of(run: Run, honest: Client, session_id: str) -> int:
    """Events beyond the first, with which it began."""
    answer = await honest.request("GET", f"/v1/sessions/{session_id}")
    run.check(answer.status == 200, f"a session answers {answer}")
    return answer.json()["seq"] - 1
