"""What the clients of one session know, written down as they go: a history for each call, and what concerns the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from proofs.histories.call import (
    EFFECTIVE,
    Ask,
    Asked,
    Claim,
    Deadline,
    Decide,
    Heard,
    LeaseEnd,
    Look,
    Record,
    Release,
    SessionEnd,
    Settle,
)
from proofs.histories.exchange import EngineClock, Exchange, Outcome
from proofs.histories.linearizability import NEVER, Operation
from proofs.histories.logs import Deed, Late, Seen, Told
from proofs.histories.register import Register
from proofs.histories.words import heard, looked

SHORTEST_LEASE_NS = 100_000_000
ANYONE = "anonymous"
Done = Operation[Asked, Heard]


@dataclass(slots=True)
class History:
    """Everything that was asked about one call, and heard. `deadlines` are all that were ever shown: one, if any."""

    interrupt_id: str
    register: Register
    operations: list[Done] = field(default_factory=list[Done])
    deadlines: set[str] = field(default_factory=set[str])

    @property
    def deadline_ms(self) -> int:
        return milliseconds(next(iter(self.deadlines)))

    def add(self, asked: Asked, said: Heard | None, outcome: Outcome) -> None:
        """Write it down; tries that may take effect later are requests of their own, whose answers never came."""
        if said is not None:
            self.operations.append(Operation(asked, said, outcome.invoked, outcome.answered, outcome.where))
        if isinstance(asked, Look) or (said is not None and said.word in EFFECTIVE):
            return
        for _ in range(outcome.loose or (said is None)):
            self.operations.append(Operation(asked, None, outcome.invoked, NEVER, outcome.where))

    def complete(self, clock: EngineClock) -> list[Done]:
        """The history with what happened by itself: its deadline, and the ends of its leases."""
        passes = list[Done]()
        for until in self.deadlines:
            passes.append(Operation(Deadline(), None, *clock.between(milliseconds(until))))
        told = {one.heard.until for one in self.operations if one.heard and one.heard.until}
        for until in sorted(told):
            passes.append(Operation(LeaseEnd(until), None, *clock.between(milliseconds(until))))
        for one in self.operations:
            if isinstance(one.asked, Claim) and one.heard is None:
                passes.append(Operation(LeaseEnd(None), None, one.invoked + SHORTEST_LEASE_NS))
        return self.operations + passes

    def deeds(self) -> Iterator[Deed]:
        """What its clients were told that the log holds of it, and what it may hold."""
        granted = set[int | None]()
        for one in self.operations:
            made, invoked = _event(one.asked), one.invoked
            if made is None or (one.heard and one.heard.word not in EFFECTIVE):
                continue
            kind, by, data = made
            if isinstance(one.asked, Claim) and one.heard:
                if one.heard.attempt in granted:  # it renewed its lease: that is no event
                    continue
                granted.add(one.heard.attempt)
                data["attempt"] = one.heard.attempt
                invoked = self._claimed_since(one)
            data["interrupt_id"] = self.interrupt_id
            yield Deed(kind, data, by, one.heard is not None, invoked, one.answered, one.heard and one.heard.seq)

    def _claimed_since(self, claim: Done) -> int:
        """From when on the claim that was granted may have been made: one of the same owner whose answer nobody heard
        may have made it, and this one renewed it."""
        unheard = (one.invoked for one in self.operations if one.asked == claim.asked and one.heard is None)
        return min([claim.invoked, *unheard])

    def late(self) -> Late:
        """Decisions that came too late, or may have."""
        tried = [one for one in self.operations if isinstance(one.asked, Decide)]
        told = sum(one.heard is not None and one.heard.word == "call-expired" for one in tried)
        return Late(self.interrupt_id, told, sum(one.heard is None for one in tried))


def _event(asked: Asked) -> tuple[str, str, dict[str, Any]] | None:
    """The event that a request makes if it takes effect: type, writer, and what it holds."""
    match asked:
        case Ask(arguments):
            return "input.requested", ANYONE, {"tool_args": json.loads(arguments)}
        case Decide(decision):
            made = {"action": decision.action, "by": decision.by, "note": decision.note}
            return "input.completed", decision.by, {"action": decision.action, "decision": made}
        case Claim(owner):
            return "action.claimed", ANYONE, {"owner": owner}
        case Release(attempt):
            return "action.released", ANYONE, {"attempt": attempt}
        case Record(attempt, result, is_error):
            told = {"attempt": attempt or 0, "result": json.loads(result), "is_error": is_error}
            return "action.result", ANYONE, told
        case Settle(outcome, result):
            return "action.settled", ANYONE, {"outcome": outcome, "result": json.loads(result)}
        case _:
            return None


class Witness:
    """The clients of one session."""

    def __init__(self, name: str, exchange: Exchange) -> None:
        self.name, self.exchange = name, exchange
        self.path = f"/v1/sessions/{name}"
        self.told = Told()
        self.calls: dict[str, History] = {}
        self.newest = 1
        """The highest seq that anyone was told."""

    def history(self, interrupt_id: str, register: Register) -> History:
        return self.calls.setdefault(interrupt_id, History(interrupt_id, register))

    async def act(
        self, call: History, asked: Asked, path: str, body: Any, *, actor: str = "", **how: Any
    ) -> Heard | None:
        """Send a request about a call; what was heard, if anything."""
        headers = {"Layby-Actor": actor} if actor else None
        outcome = await self.exchange.request("POST", self.path + path, body, headers=headers, **how)
        said = heard(outcome.answer) if outcome.answer else None
        call.add(asked, said, outcome)
        if outcome.answer:
            self._take_deadline(call, outcome.answer.json().get("call"))
        if said and said.seq:
            self.newest = max(self.newest, said.seq)
        return said

    async def look(self, call: History, how: str, *, server: int | None = None) -> Heard | None:
        """Read a call on one of the pages that show it."""
        one = f"{self.path}/calls/{call.interrupt_id}"
        pages = {"call": one, "document": f"{one}/state_snapshot", "snapshot": self.path}
        inbox = f"/v1/calls?agent={self.name}&limit=1000"
        outcome = await self.exchange.request("GET", pages.get(how, inbox), server=server)
        if outcome.answer is None:
            return None
        said = looked(outcome.answer, how, call.interrupt_id)
        call.add(Look(how), said, outcome)
        if outcome.answer.status == 200 and how == "call":
            self._take_deadline(call, outcome.answer.json())
        if how == "snapshot":
            self.saw(outcome, outcome.answer.json()["seq"])
        return said

    def saw(self, outcome: Outcome, seq: int) -> None:
        """A read showed the log up to this number."""
        self.told.seen.append(Seen(seq, outcome.invoked, outcome.answered))
        self.newest = max(self.newest, seq)

    async def end(self, server: int) -> None:
        """End the session, which retires what still waits."""
        body = {"type": "session.completed"}
        outcome = await self.exchange.request("POST", f"{self.path}/events", body, server=server)
        if outcome.answer is None or outcome.answer.status != 201:
            raise ValueError(f"{self.name} could not be ended: {outcome.answer}")
        self.ended: Done = Operation(SessionEnd(), None, outcome.invoked, outcome.answered, outcome.where)

    def _take_deadline(self, call: History, shown: dict[str, Any] | None) -> None:
        if shown:
            call.deadlines.add(shown["expires_at"])


def milliseconds(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp() * 1000)
