"""One scene: some sessions, used by all kinds of clients at once over every server, and then judged."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis

from proofs.histories import logs, publishing, tails
from proofs.histories.deciding import Actors, Aim
from proofs.histories.exchange import EngineClock, Exchange
from proofs.histories.judging import call_faults
from proofs.histories.witness import Witness
from proofs.proof import Breach
from proofs.servers import Server

FEED_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How much happens in each session of a scene."""

    sessions: int
    races: int
    lives: int
    events: int
    publishers: int = 2
    creators: int = 3
    at_once: int = 6
    """Races and lives that go on at the same time."""


@dataclass(slots=True)
class Tally:
    """What all scenes came to."""

    calls: int = 0
    operations: int = 0
    configurations: int = 0
    appended: int = 0
    appends: int = 0
    logged: int = 0
    tailed: int = 0


class Stage:
    """What the scenes have in common."""

    def __init__(self, servers: Sequence[Server], engine: Redis, chance: random.Random) -> None:
        self.servers, self.engine, self.chance = servers, engine, chance
        self.exchange, self.clock = Exchange(servers, chance), EngineClock(engine)
        self.aim, self.tally = Aim(), Tally()
        self._feeds: dict[str, str] = {}

    async def play(self, name: str, plan: Plan) -> None:
        """Raises `Breach` with the first fault that is found."""
        witnesses = [Witness(f"{name}-{number}", self.exchange) for number in range(plan.sessions)]
        self.clock.sample()
        async with asyncio.TaskGroup() as group:
            followed = [group.create_task(self._session(witness, plan)) for witness in witnesses]
        self.clock.sample()
        committed = self._committed()
        for witness, task in zip(witnesses, followed, strict=True):
            for fault in await self._faults(witness, task.result(), committed[witness.name]):
                raise Breach(f"session {witness.name}: {fault}")

    async def _session(self, witness: Witness, plan: Plan) -> list[list[bytes]]:
        """Everything that happens in one session; what its followers got."""
        await self._create(witness, plan.creators)
        ending, done = asyncio.Event(), asyncio.Event()
        servers = range(len(self.servers))
        async with asyncio.TaskGroup() as group:
            followers = [group.create_task(tails.follow(self.servers, at, witness.name, self.chance)) for at in servers]
            group.create_task(publishing.glance(witness, self.chance, done))
            actors = Actors(witness, self.clock, self.chance, self.aim)
            last = [group.create_task(actors.linger(f"{witness.name}-last-{n}", ending)) for n in range(2)]
            await self._acts(actors, plan)
            done.set()
            ending.set()
            await witness.end(self.exchange.some_server())
            await asyncio.gather(*last)
        return [task.result() for task in followers]

    async def _create(self, witness: Witness, clients: int) -> None:
        """Some clients create the session at once: one did, and the others hear that it exists."""
        body = {"session_id": witness.name, "agent": witness.name}
        told = await asyncio.gather(
            *(
                self.exchange.request("POST", "/v1/sessions", body, server=at % len(self.servers))
                for at in range(clients)
            )
        )
        words = sorted(one.answer.problem or "created" for one in told if one.answer)
        if len(words) == clients and words != ["created", *["session-exists"] * (clients - 1)]:
            raise Breach(f"{clients} who created {witness.name} at once heard {words}")

    async def _acts(self, actors: Actors, plan: Plan) -> None:
        witness, room = actors.witness, asyncio.Semaphore(plan.at_once)
        ledger = publishing.Ledger(plan.events)

        async def within(part: Any) -> None:
            async with room:
                await part

        parts = [actors.race(f"{witness.name}-race-{number}") for number in range(plan.races)]
        parts += [actors.live(f"{witness.name}-life-{number}") for number in range(plan.lives)]
        self.chance.shuffle(parts)
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.publishers):
                group.create_task(publishing.publish(witness, ledger, self.chance))
            for part in parts:
                group.create_task(within(part))
        self.tally.appended += ledger.acknowledged
        self.tally.appends += ledger.requests

    async def _faults(self, witness: Witness, followed: list[list[bytes]], committed: dict[int, int]) -> list[str]:
        lines = await self._log(witness.name)
        self.tally.logged += len(lines)
        self.tally.tailed += sum(map(len, followed))
        if found := [fault for got in followed for fault in logs.follower_faults(lines, got)]:
            return found
        told = witness.told
        for call in witness.calls.values():
            told.deeds += call.deeds()
            told.late[call.interrupt_id] = call.late()
        found = list(logs.faults([json.loads(line) for line in lines], told, committed))
        return found or list(self._call_faults(witness))

    def _call_faults(self, witness: Witness) -> Iterator[str]:
        for call in witness.calls.values():
            if len(call.deadlines) > 1:
                yield f"the deadline of {call.interrupt_id} moved: {sorted(call.deadlines)}"
            operations = [*call.complete(self.clock), witness.ended]
            self.tally.calls += 1
            self.tally.operations += len(operations)
            fault, looked_at = call_faults(call.interrupt_id, operations, call.register)
            self.tally.configurations += looked_at
            if fault:
                yield fault

    async def _log(self, session: str) -> list[bytes]:
        lines, start = list[bytes](), "1"
        while start:
            outcome = await self.exchange.request("GET", f"/v1/sessions/{session}/events?from={start}&limit=10000")
            if outcome.answer is None or outcome.answer.status != 200:
                raise Breach(f"the log of {session} from {start} on was answered {outcome.answer}")
            lines += outcome.answer.body.splitlines()
            start = outcome.answer.headers.get("layby-next-from", "")
        return lines

    def _committed(self) -> defaultdict[str, dict[int, int]]:
        """When each event since the last time was committed, by session and seq: the feeds of the store tell it, by
        the engine's own clock (see docs/redis-layout.md)."""
        found: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for key in self.engine.scan_iter("layby:*:feed"):
            while page := self.engine.xrange(key, f"({self._feeds.get(key, '0')}", count=FEED_PAGE):
                for entry, fields in page:
                    if "f" in fields:
                        times = dict.fromkeys(range(int(fields["f"]), int(fields["l"]) + 1), int(entry.split("-")[0]))
                        found[fields["s"]] |= times
                self._feeds[key] = page[-1][0]
        return found
