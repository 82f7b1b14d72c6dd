"""A session that lives through everything that can happen to one, at random but the same for the same seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from eventstore.domain.commands import (
    Actor,
    ClaimCall,
    Command,
    CompleteAuthorization,
    DecideCall,
    NewEvent,
    RecordResult,
    ReleaseCall,
    SendMessage,
    SettleCall,
)
from eventstore.domain.errors import LaybyError
from eventstore.event_store import EventStore
from tests.integration.stores import TENANT, create
from tests.unit.domain.given import ask, connect, event, publish, question, step, turn

ACTORS = [Actor("anna"), Actor("bén"), Actor("anna", "console")]


class Wanderer:
    """Acts on one session; what is refused is refused."""

    def __init__(self, store: EventStore, session_id: str, seed: int, kind: str = "turn") -> None:
        self.told = f"seed {seed}"  # shown by pytest beside a failure
        self.store = store
        self.session_id = session_id
        self.kind = kind
        self._random = random.Random(seed)
        self._numbers = count(1)
        self._calls: list[str] = []
        self._token = ""

    async def begin(self, agent: str | None = "hélper") -> None:
        await create(self.store, self.session_id, agent=agent, steps=self.kind, metadata={"a": [1, 2**70]})

    async def wander(self, steps: int) -> None:
        for _ in range(steps):
            self._token = (await self.store.head(TENANT, self.session_id)).session.token
            await self.act(self._command())

    async def act(self, command: Command | NewEvent) -> None:
        by = self._random.choice(ACTORS)
        command = publish(command) if isinstance(command, NewEvent) else command
        try:
            await self.store.execute(TENANT, self.session_id, command, by)
        except LaybyError:
            await asyncio.sleep(0)

    def _command(self) -> Command | NewEvent:
        choice = self._random.choice
        makers: list[Callable[[], Command | NewEvent]] = [
            self._ask, self._ask, self._decide, self._decide, self._decide, self._run, self._run, self._run,
            self._turn, self._turn, self._turn, self._step, self._step, self._message,
            lambda: event("message.appended", text=f"line {next(self._numbers)}\u2028", empty=[], big=2**70),
        ]  # fmt: skip
        return choice(makers)()

    def _ask(self) -> NewEvent:
        name = f"c{next(self._numbers)}-é"
        self._calls.append(name)
        wait: dict[str, Any] = {"expires_in_ms": self._random.choice([1, 20, 3_600_000, 3_600_000])}
        make = self._random.choice([ask, ask, question, connect])
        if make is ask:
            wait |= {"tool_name": self._random.choice(["refund", "mail"]), "allow_edits": True}
            wait["idempotent"] = self._random.random() < 0.5
        return make(name, **wait)

    def _call(self) -> str:
        return self._random.choice(self._calls[-6:] or ["none"])

    def _decide(self) -> Command:
        kind = self._random.choice(["approve", "approve", "reject", "respond", "complete"])
        if kind == "complete":
            return CompleteAuthorization(self._call(), self._random.random() < 0.5)
        if kind == "respond":
            return DecideCall(self._call(), kind, response=self._random.choice([None, False, 1.0, {"a": []}]))
        edits = {"amount": 1} if kind == "approve" and self._random.random() < 0.3 else None
        return DecideCall(self._call(), kind, note="hm", edited_args=edits)

    def _run(self) -> Command:
        return self._random.choice(
            [
                ClaimCall(self._call(), "w1", self._random.choice([1, 60_000])),
                ReleaseCall(self._call(), 1),
                RecordResult(self._call(), {"ok": True}, self._random.choice([1, 2, None])),
                SettleCall(self._call(), self._random.choice(["executed", "not_executed"]), "seen"),
            ]
        )

    def _turn(self) -> NewEvent:
        kind = self._random.choice(["start", "start", "turn.completed", "turn.completed", "turn.failed"])
        return turn(f"t{next(self._numbers)}") if kind == "start" else event(kind)

    def _step(self) -> NewEvent:
        name = f"p{next(self._numbers) // 6}"
        return self._random.choice([step(name), event("step.completed", step_id=name),
                                    event("step.interrupted", step_id=name)])  # fmt: skip

    def _message(self) -> Command:
        return SendMessage("old" if self._random.random() < 0.2 else self._token, "hi")
