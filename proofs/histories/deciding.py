"""Clients that ask, decide and run: races against a deadline, and whole lives of calls with everybody at odds."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from dataclasses import dataclass
from typing import Any

from proofs.engines import Engine
from proofs.histories.call import (
    Ask,
    Claim,
    Decide,
    Decision,
    Heard,
    Record,
    Release,
    Settle,
)
from proofs.histories.exchange import Cut, EngineClock
from proofs.histories.register import Register
from proofs.histories.witness import History, Witness
from proofs.histories.words import plain

PAGES = ("call", "call", "document", "snapshot", "inbox")
PEOPLE = ("ann", "bob", "cem", "dora")
LONGEST_STALL_NS = 2_000_000_000
"""Well within the time after which a server calls an engine that hangs unreachable."""
NEAREST_NS, FURTHEST_NS = 1_000_000, 1_000_000_000


@dataclass(slots=True)
class Aim:
    """How long before a deadline decisions are sent, so that about half of them come in time, however long a request
    takes now: each race that was won moves it later, each that was lost moves it earlier. `asking_ns` is how long it
    took of late to ask and to learn the deadline, which must lie well behind that."""

    ahead_ns: int = 8_000_000
    asking_ns: int = 50_000_000
    decided: int = 0
    expired: int = 0

    def learn(self, decided: bool) -> None:
        wanted = self.ahead_ns / 1.25 if decided else self.ahead_ns * 1.25
        self.ahead_ns = int(min(max(wanted, NEAREST_NS), FURTHEST_NS))
        self.decided += decided
        self.expired += not decided

    def within_ms(self, chance: random.Random) -> int:
        """How far away a deadline should be."""
        return chance.randint(200, 500) + (2 * self.asking_ns + 2 * self.ahead_ns) // 1_000_000

    def took(self, asking_ns: int) -> None:
        self.asking_ns = (3 * self.asking_ns + asking_ns) // 4


class Actors:
    """Those who act on the calls of one session."""

    def __init__(self, witness: Witness, clock: EngineClock, chance: random.Random, aim: Aim) -> None:
        self.witness, self.clock, self.chance, self.aim = witness, clock, chance, aim

    def call(self, interrupt_id: str, *, idempotent: bool = False) -> History:
        return self.witness.history(interrupt_id, Register(idempotent))

    async def race(self, interrupt_id: str) -> None:
        """Decisions on every server, aimed at the deadline; then all hear for ever what it came to."""
        call = self.call(interrupt_id)
        began = time.monotonic_ns()
        await self.ask(call, {"n": 0}, expires_in_ms=self.aim.within_ms(self.chance))
        await self.witness.look(call, "call", server=self.witness.exchange.some_server())
        self.aim.took(time.monotonic_ns() - began)
        if not call.deadlines:
            return
        deadline, ahead = self.clock.between(call.deadline_ms)[0], self.aim.ahead_ns
        moments = [deadline - int(ahead * self.chance.uniform(0.5, 1.5)) for _ in range(3)]
        said = await asyncio.gather(
            *(self._decide_at(call, who, *at) for who, at in zip(PEOPLE, enumerate(moments), strict=False)),
            self._look_at(call, deadline + int(ahead * self.chance.uniform(-1, 1))),
        )
        self.aim.learn(any(one is not None and one.word == "applied" for one in said))
        servers = len(self.witness.exchange.servers)
        at = self.chance.randrange(servers)
        await self.decide(call, self.chance.choice(PEOPLE), server=at)
        await self.witness.look(call, self.chance.choice(PAGES[:4]), server=(at + 1) % servers)

    async def overtake(self, interrupt_id: str, engine: Engine) -> None:
        """A decision that a server makes in time, and that the engine, which hangs, gets when its deadline is past.
        Nobody else may write the session meanwhile: the server would look at it again."""
        call, server = self.call(interrupt_id), self.witness.exchange.some_server()
        margin_ns = min(200_000_000 + 5 * self.aim.asking_ns, LONGEST_STALL_NS)
        await self.ask(call, {"n": 0}, server=server, expires_in_ms=(margin_ns + 4 * self.aim.asking_ns) // 1_000_000)
        await self.witness.look(call, "call", server=server)
        if not call.deadlines:
            return
        deadline = self.clock.between(call.deadline_ms)[1]
        await _until(deadline - margin_ns)
        engine.freeze()
        try:
            decision = asyncio.create_task(self.decide(call, PEOPLE[0], "approve", server=server))
            await _until(deadline + 20_000_000)
        finally:
            engine.thaw()
        await decision
        await self.witness.look(call, "call")

    async def _decide_at(self, call: History, who: str, number: int, moment: int) -> Heard | None:
        await _until(moment)
        return await self.decide(call, who, server=number % len(self.witness.exchange.servers))

    async def _look_at(self, call: History, moment: int) -> None:
        await _until(moment)
        await self.witness.look(call, self.chance.choice(PAGES))

    async def ask(
        self, call: History, arguments: dict[str, Any], *, cut: Cut = "no", server: int | None = None, **more: Any
    ) -> Heard | None:
        data = {
            "interrupt_id": call.interrupt_id, "tool_name": "pay", "tool_args": arguments, "allow_edits": True,
            "options": ["approve", "reject", "respond"], "idempotent": call.register.idempotent, **more,
        }  # fmt: skip
        body = {"type": "input.requested", "data": data}
        return await self.witness.act(call, Ask(plain(arguments)), "/events", body, cut=cut, server=server)

    async def decide(
        self, call: History, who: str, action: str = "", *, cut: Cut = "no", server: int | None = None
    ) -> Heard | None:
        """Any decision, now and then one that the call does not take, or on other arguments than it has."""
        action = action or self.chance.choice(("approve", "approve", "edit", "reject", "respond"))
        body: dict[str, Any] = {"action": action, "note": uuid.uuid4().hex}
        if action == "edit":
            body |= {"action": "approve", "edited_args": {"n": self.chance.randint(1, 2)}}
        if action == "respond":
            body["response"] = self.chance.randint(1, 2)
        offered, view = self.chance.random() > 0.03, self.chance.random() > 0.05
        if not offered:
            body |= {"action": "approve", "edited_args": [1]}
            body.pop("response", None)
        if not view:
            body["args_digest"] = "sha256:0"
        made = Decision(body["action"], who, body["note"], plain(body.get("edited_args")), plain(body.get("response")))
        path = f"/calls/{call.interrupt_id}/decision"
        return await self.witness.act(call, Decide(made, offered, view), path, body, actor=who, cut=cut, server=server)

    async def live(self, interrupt_id: str) -> None:
        """Asked by two, decided by some, run by three at once who steal, forget and repeat."""
        chance = self.chance
        call = self.call(interrupt_id, idempotent=chance.random() < 0.5)
        within = {"expires_in_ms": chance.randint(100, 400)} if chance.random() < 0.15 else {}
        other = {"n": 0} if chance.random() < 0.7 else {"n": 1}
        await asyncio.gather(
            self.ask(call, {"n": 0}, cut=self._cut(), **within),
            self.ask(call, other, cut=self._cut(), **within),
            self.witness.look(call, chance.choice(PAGES)),
        )
        await asyncio.gather(*(self._argue(call, who) for who in chance.sample(PEOPLE, 3)))
        await self.decide(call, "boss", "approve")
        await asyncio.gather(*(self._run(call, owner) for owner in ("one", "two", "three")))
        for server in range(len(self.witness.exchange.servers)):
            await self.witness.look(call, chance.choice(PAGES), server=server)

    async def _argue(self, call: History, who: str) -> None:
        for _ in range(self.chance.randint(1, 2)):
            if self.chance.random() < 0.4:
                await self.witness.look(call, self.chance.choice(PAGES))
            else:
                await self.decide(call, who, cut=self._cut())

    async def _run(self, call: History, owner: str) -> None:
        """One who runs the call: mostly as one should, else late, with an old attempt, or after all was done."""
        chance, path = self.chance, f"/calls/{call.interrupt_id}"
        for _ in range(chance.randint(3, 6)):
            match chance.choice(("claim", "claim", "claim", "release", "record", "settle", "look", "wait")):
                case "claim":
                    lease = {"lease_ms": chance.choice((100, 100, 150, 10_000))}
                    body = {"owner": owner, **lease}
                    await self.witness.act(call, Claim(owner), f"{path}/claim", body, cut=self._cut())
                case "release":
                    attempt = self._attempt(call)
                    await self.witness.act(call, Release(attempt), f"{path}/release", {"attempt": attempt})
                case "record" if chance.random() < 0.6:
                    await self._record(call, f"{path}/result")
                case "settle":
                    await self._settle(call, f"{path}/settle")
                case "wait":
                    await asyncio.sleep(chance.uniform(0.05, 0.2))
                case _:
                    await self.witness.look(call, chance.choice(PAGES))

    async def _record(self, call: History, path: str) -> None:
        attempt = None if self.chance.random() < 0.1 else self._attempt(call)
        result, is_error = {"paid": self.chance.randint(1, 2)}, self.chance.random() < 0.2
        body = {"result": result, "is_error": is_error} | ({} if attempt is None else {"attempt": attempt})
        await self.witness.act(call, Record(attempt, plain(result), is_error), path, body, cut=self._cut())

    async def _settle(self, call: History, path: str) -> None:
        outcome = self.chance.choice(("executed", "not_executed", "not_executed"))
        result = {"paid": 3} if outcome == "executed" else None
        body = {"outcome": outcome, "note": "looked", "result": result}
        await self.witness.act(call, Settle(outcome, plain(result)), path, body)

    def _attempt(self, call: History) -> int:
        """The newest attempt that anybody was told of, or one before it."""
        told = max((one.heard.attempt or 0 for one in call.operations if one.heard), default=0)
        return max(0, told - (self.chance.random() < 0.4))

    def _cut(self) -> Cut:
        draw = self.chance.random()
        return "repeat" if draw < 0.08 else "leave" if draw < 0.1 else "no"

    async def linger(self, interrupt_id: str, ending: asyncio.Event) -> None:
        """A call that still waits when its session ends; somebody decides at that very moment."""
        call = self.call(interrupt_id)
        await self.ask(call, {"n": 0})
        await ending.wait()
        await asyncio.gather(*(self.decide(call, who) for who in PEOPLE[:2]), self.witness.look(call, "call"))
        for server in range(len(self.witness.exchange.servers)):
            await self.witness.look(call, self.chance.choice(PAGES), server=server)


async def _until(moment: int) -> None:
    await asyncio.sleep(max(0.0, (moment - time.monotonic_ns()) / 1e9))
