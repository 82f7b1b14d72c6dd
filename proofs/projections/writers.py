"""Sessions at work: random requests, of which those that are acknowledged are remembered."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from proofs.client import Answer

Send = Callable[[str, str, bytes, dict[str, str]], Awaitable[Answer]]
TOOLS = ("pay", "mail", "search")


@dataclass
class Acknowledged:
    """Up to which seq each session was acknowledged, and which sessions were deleted, or may be by now."""

    seqs: dict[str, int] = field(default_factory=dict[str, int])
    gone: set[str] = field(default_factory=set[str])
    requests: int = 0

    def note(self, session_id: str, seq: int) -> None:
        self.seqs[session_id] = max(seq, self.seqs.get(session_id, 0))


class Writer:
    """Writes to sessions of its own, one after another."""

    def __init__(self, send: Send, name: str, seed: str, known: Acknowledged, *, deletes: bool = True) -> None:
        self._send, self._name, self._known, self._deletes = send, name, known, deletes
        self._random = random.Random(seed)
        self._sessions = 0
        self._calls = 0
        self._begin()

    def _begin(self) -> None:
        self._sessions += 1
        self.session_id = f"{self._name}.{self._sessions}"
        self._waiting: list[tuple[str, str]] = []
        self._approved: list[str] = []
        self._turn = self._there = False

    async def work(self, requests: int) -> None:
        for _ in range(requests):
            await self.once()

    async def once(self) -> None:
        """One request, whatever comes of it."""
        self._known.requests += 1
        if not self._there:
            await self._create()
            return
        choose = self._random.random()
        if choose < 0.45:
            await self._publish()
        elif choose < 0.7 and self._waiting:
            await self._decide()
        elif choose < 0.9 and self._approved:
            await self._execute()
        elif choose > 0.97:
            await self._end()
        else:
            await self._post("events", {"type": "note.taken", "data": {"text": "x" * self._random.randrange(200)}})

    async def _post(self, path: str, body: Any, what: str = "") -> Answer:
        place = f"/v1/sessions/{self.session_id}/{path}"
        answer = await self._send("POST", place, json.dumps(body).encode(), {})
        if answer.status < 300:
            told = answer.json()
            seq = told.get("last_seq") or told.get("seq") or 0
            self._known.note(self.session_id, seq)
        elif answer.status == 410 and answer.problem == "session-deleted":  # by somebody else
            self._begin()
        return answer

    async def _create(self) -> None:
        body = {"session_id": self.session_id, "agent": self._random.choice(["ann", "bob"])}
        answer = await self._send("POST", "/v1/sessions", json.dumps(body).encode(), {})
        if answer.status == 201:
            self._there = True
            self._known.note(self.session_id, answer.json()["seq"])

    async def _publish(self) -> None:
        if self._turn and self._random.random() < 0.3:
            ending = self._random.choice(["turn.completed", "turn.completed", "turn.failed"])
            await self._post("events", {"type": ending})
            self._turn = False
            self._waiting = self._waiting if ending == "turn.completed" else []
            return
        events = list[Any]() if self._turn else [{"type": "turn.started"}]
        for _ in range(self._random.randrange(1, 4)):
            events.append(self._ask())
        await self._post("events", events)
        self._turn = True

    def _ask(self) -> dict[str, Any]:
        self._calls += 1
        name, tool = f"c{self._calls}", self._random.choice(TOOLS)
        self._waiting.append((name, tool))
        if tool == "search":
            data = {"interrupt_id": name, "connection": "search", "expires_in_ms": 3_600_000}
            return {"type": "authorization.required", "data": data}
        soon = self._random.choice([20, 3_600_000, 3_600_000, 3_600_000])
        data = {"interrupt_id": name, "tool_name": tool, "tool_args": {"n": self._calls}, "expires_in_ms": soon}
        return {"type": "input.requested", "data": data}

    async def _decide(self) -> None:
        name, tool = self._waiting.pop(self._random.randrange(len(self._waiting)))
        yes = self._random.random() < 0.7
        if tool == "search":
            await self._post(f"authorizations/{quote(name)}/complete", {"success": yes})
            return
        answer = await self._post(f"calls/{quote(name)}/decision", {"action": "approve" if yes else "reject"})
        if yes and answer.status == 200:
            self._approved.append(name)

    async def _execute(self) -> None:
        name = self._approved.pop()
        path = f"calls/{quote(name)}"
        answer = await self._post(f"{path}/claim", {"owner": self._name, "lease_ms": 3_600_000})
        if answer.status == 200:
            await self._post(f"{path}/result", {"attempt": answer.json()["attempt"], "result": {"ok": True}})

    async def _end(self) -> None:
        if self._deletes and self._random.random() < 0.5:
            self._known.gone.add(self.session_id)
            await self._send("DELETE", f"/v1/sessions/{self.session_id}", b"", {})
        else:
            await self._post("events", {"type": "session.completed"})
        self._begin()


async def crowd(send: Send, session_id: str, calls: int, known: Acknowledged) -> None:
    """A session with more calls and steps than a snapshot shows."""
    await send("POST", "/v1/sessions", json.dumps({"session_id": session_id, "agent": "ann"}).encode(), {})
    for start in range(0, calls, 40):
        asks = [_plain_ask(f"c{number}") for number in range(start, min(calls, start + 40))]
        for batch in ([{"type": "turn.started"}, *asks], [{"type": "turn.failed"}]):
            answer = await send("POST", f"/v1/sessions/{session_id}/events", json.dumps(batch).encode(), {})
            known.note(session_id, answer.json()["last_seq"])
    for number in range(110):
        batch = [{"type": "turn.started"}, {"type": "turn.completed"}]
        if number == 60:
            batch.insert(1, _plain_ask("open"))
        answer = await send("POST", f"/v1/sessions/{session_id}/events", json.dumps(batch).encode(), {})
        known.note(session_id, answer.json()["last_seq"])


def _plain_ask(name: str) -> dict[str, Any]:
    return {"type": "input.requested", "data": {"interrupt_id": name, "tool_name": "pay", "tool_args": {}}}
