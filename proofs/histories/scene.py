"""One scene: some sessions, used by all kinds of clients at once over every server, and then judged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from proofs.engines import Engine
from proofs.histories import publishing, tails
from proofs.histories.deciding import Actors, Aim
from proofs.histories.exchange import EngineClock, Exchange
from proofs.histories.judging import Judge
from proofs.histories.witness import Witness
from proofs.proof import Breach
from proofs.servers import Server

PATIENCE_S = 60.0
"""How long followers may take to see the end of a session that has ended: far longer than a lost wake-up costs."""


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
    stalls: int = 1
    """How often, in the whole scene, the engine hangs until a deadline has passed."""


class Stage:
    """What the scenes have in common."""

    def __init__(self, servers: Sequence[Server], engine: Engine, chance: random.Random) -> None:
        self.servers, self.engine, self.chance = servers, engine, chance
        self.exchange, self.judge = Exchange(servers, chance), Judge(engine.client)
        self.aim = Aim()

    async def play(self, name: str, plan: Plan) -> None:
        """Raises `Breach` with the first fault that is found."""
        scene = [_Scene(self, Witness(f"{name}-{number}", self.exchange), plan) for number in range(plan.sessions)]
        clock = EngineClock(self.engine.client)
        async with asyncio.TaskGroup() as followers:
            async with asyncio.TaskGroup() as group:
                for number, one in enumerate(scene):
                    group.create_task(one.play(clock, followers, stalls=0 if number else plan.stalls))
            clock.sample()
            committed = self.judge.committed()
            for one in scene:
                lines = await one.log()
                self.judge.log(one.witness, lines, committed[one.witness.name])
                self.judge.calls(one.witness, clock)
                self.judge.followers(one.witness, lines, await one.followed())


class _Scene:
    """One session of it."""

    def __init__(self, stage: Stage, witness: Witness, plan: Plan) -> None:
        self.stage, self.witness, self.plan = stage, witness, plan
        self.exchange, self.chance = stage.exchange, stage.chance
        self._followers: list[asyncio.Task[list[bytes]]] = []

    async def play(self, clock: EngineClock, followers: asyncio.TaskGroup, stalls: int) -> None:
        """Everything that happens in it. The engine hangs for the sake of one session alone, but for all at once."""
        await self._create()
        servers, name = self.stage.servers, self.witness.name
        for at in range(len(servers)):
            self._followers.append(followers.create_task(tails.follow(servers, at, name, self.chance)))
        ending = asyncio.Event()
        actors = Actors(self.witness, clock, self.chance, self.stage.aim)
        for number in range(stalls):
            await actors.overtake(f"{name}-stall-{number}", self.stage.engine)
        async with asyncio.TaskGroup() as group:
            group.create_task(publishing.glance(self.witness, self.chance, ending))
            for number in range(2):
                group.create_task(actors.linger(f"{name}-last-{number}", ending))
            await self._acts(actors)
            ending.set()
            await self.witness.end(self.exchange.some_server())

    async def _create(self) -> None:
        """Some clients create the session at once: one did, and the others hear that it exists."""
        name, clients = self.witness.name, self.plan.creators
        body, servers = {"session_id": name, "agent": name}, len(self.stage.servers)
        tries = [self.exchange.request("POST", "/v1/sessions", body, server=at % servers) for at in range(clients)]
        told = await asyncio.gather(*tries)
        words = sorted(one.answer.problem or "created" for one in told if one.answer)
        if len(words) == clients and words != ["created", *["session-exists"] * (clients - 1)]:
            raise Breach(f"{clients} who created {name} at once heard {words}")

    async def _acts(self, actors: Actors) -> None:
        name, plan, room = self.witness.name, self.plan, asyncio.Semaphore(self.plan.at_once)
        ledger = publishing.Ledger(plan.events)

        async def within(part: Callable[[str], Awaitable[None]], call: str) -> None:
            async with room:
                await part(call)

        parts = [(actors.race, f"{name}-race-{number}") for number in range(plan.races)]
        parts += [(actors.live, f"{name}-life-{number}") for number in range(plan.lives)]
        self.chance.shuffle(parts)
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.publishers):
                group.create_task(publishing.publish(self.witness, ledger, self.chance))
            for part, call in parts:
                group.create_task(within(part, call))
        self.stage.judge.tally.appended += ledger.acknowledged
        self.stage.judge.tally.appends += ledger.requests

    async def log(self) -> list[bytes]:
        """Its log, line by line."""
        lines, start, name = list[bytes](), "1", self.witness.name
        while start:
            outcome = await self.exchange.request("GET", f"/v1/sessions/{name}/events?from={start}&limit=10000")
            if outcome.answer is None or outcome.answer.status != 200:
                raise Breach(f"the log of {name} from {start} on was answered {outcome.answer}")
            lines += outcome.answer.body.splitlines()
            start = outcome.answer.headers.get("layby-next-from", "")
        return lines

    async def followed(self) -> list[list[bytes]]:
        """What its followers got, up to its end."""
        _, late = await asyncio.wait(self._followers, timeout=PATIENCE_S)
        if late:
            raise Breach(f"{self.witness.name} ended {PATIENCE_S:.0f} s ago, and {len(late)} followers wait still")
        return [task.result() for task in self._followers]
