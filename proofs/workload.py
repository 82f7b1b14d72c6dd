"""Clients that write sessions from birth on, each request repeated with its key until it is acknowledged; and what they
were told, for whoever judges it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proofs.client import Answer, Client
from proofs.proof import Breach

SOON_MS = (300, 1_500)
LATER_MS = 3_600_000
LONGEST = 6
"""Steps in a session. Many are short, so that many are left alone."""
DELETED = 0.1
JSON, NDJSON = "application/json", "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Done:
    """A request that was acknowledged, and how."""

    path: str
    key: str
    kind: str
    sent: bytes
    answer: Answer


@dataclass(slots=True)
class Journal:
    """What a client was told of one session."""

    session_id: str = ""
    done: list[Done] = field(default_factory=list[Done])
    notes: dict[int, int] = field(default_factory=dict[int, int])
    """Number of each note, and the seq that was acknowledged."""
    calls: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Of each call its `deadline` (soon or later), and, once acknowledged, `action`, `decided`, `attempt`, `result`."""
    deleted: bool = False


class Writer:
    """One client. Its choices follow from the seed."""

    def __init__(self, name: str, client: Client, seed: int, *, limit_s: float = 60.0) -> None:
        self.name, self._client, self._limit_s = name, client, limit_s
        self._random = random.Random(f"{seed} {name}")
        self._numbers = 0
        self.journals: list[Journal] = []
        self.acknowledged = self.tries = 0

    async def run(self, over: Callable[[], bool]) -> list[Journal]:
        """Write one session after another until it is over; nothing is under way afterwards, and those that were left
        are never looked at again."""
        try:
            while not self.journals or not over():
                await self._session(over)
            return self.journals
        finally:
            self._client.close()

    async def _session(self, over: Callable[[], bool]) -> None:
        self.journals.append(Journal())
        await self._create()
        for _ in range(self._random.randint(1, LONGEST)):
            if over():
                return
            await self._random.choice([self._note, self._batch, self._lines, self._ask, self._work])()
        if self._random.random() < DELETED:
            await self._delete()

    async def _create(self) -> None:
        body: dict[str, Any] = {"metadata": {"by": self.name}}
        if self._random.random() < 0.7:
            body["session_id"] = f"s-{self.name}-{len(self.journals)}"
        answer = await self._post("/v1/sessions", body, 201)
        self.journal.session_id = answer["session_id"]

    async def _note(self) -> None:
        await self._publish([self._next()])

    async def _batch(self) -> None:
        await self._publish([self._next() for _ in range(self._random.randint(2, 5))])

    async def _lines(self) -> None:
        await self._publish([self._next() for _ in range(3)], lines=True)

    async def _publish(self, numbers: list[int], *, lines: bool = False) -> None:
        events = [{"type": "note.taken", "data": {"n": number}} for number in numbers]
        sent = "".join(json.dumps(event) + "\n" for event in events) if lines else json.dumps(events)
        answer = await self._post(f"{self._base}/events", sent.encode(), 201, NDJSON if lines else JSON)
        seqs = [event["seq"] for event in answer["events"] if event["type"] == "note.taken"]
        self.journal.notes |= dict(zip(numbers, seqs, strict=True))

    async def _ask(self) -> None:
        """Ask, and leave it: half of these expire soon."""
        await self._asked(f"c{self._next()}", self._random.choice(["soon", "later"]))

    async def _asked(self, name: str, deadline: str) -> None:
        expires = self._random.randint(*SOON_MS) if deadline == "soon" else LATER_MS
        data = {"interrupt_id": name, "tool_name": "pay", "tool_args": {"for": name}, "expires_in_ms": expires}
        await self._post(f"{self._base}/events", {"type": "input.requested", "data": data}, 201)
        self.journal.calls[name] = {"deadline": deadline}

    async def _work(self) -> None:
        """Ask, decide, claim, hand in the result; or reject."""
        name = f"c{self._next()}"
        await self._asked(name, "later")
        call, base = self.journal.calls[name], f"{self._base}/calls/{name}"
        action = self._random.choice(["approve", "approve", "reject"])
        answer = await self._post(f"{base}/decision", {"action": action}, 200)
        call |= {"action": action, "decided": answer["seq"]}
        if action == "approve":
            claimed = await self._post(f"{base}/claim", {"owner": self.name, "lease_ms": LATER_MS}, 200)
            call["attempt"] = claimed["attempt"]
            result = {"attempt": claimed["attempt"], "result": {"paid": name}}
            call["result"] = (await self._post(f"{base}/result", result, 200))["seq"]

    async def _delete(self) -> None:
        """A deletion has no key: one that took place already is gone."""
        give_up = asyncio.get_running_loop().time() + self._limit_s
        while asyncio.get_running_loop().time() < give_up:
            try:
                answer = await self._client.request("DELETE", self._base)
            except (OSError, EOFError, ValueError, TimeoutError):
                answer = Answer(503, {}, b"")
            if answer.status in (204, 410):
                self.journal.deleted = True
                return
            _expect(answer.status == 503, f"DELETE {self._base} heard {answer}")
            await asyncio.sleep(0.05)
        raise TimeoutError(f"DELETE {self._base}: no answer within {self._limit_s} s")

    async def _post(self, path: str, body: Any, status: int, kind: str = JSON) -> Any:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        key = f"{self.name}-{self._next()}"
        answer, tries = await self._client.insist(
            "POST", path, sent, key=key, limit_s=self._limit_s, headers={"Content-Type": kind}
        )
        self.tries += tries
        told = f"POST {path} {sent[:200]!r} heard {answer} after {tries} tries"
        _expect(answer.status == status, f"{told}; acknowledged before were {len(self.journal.done)} requests")
        self.acknowledged += 1
        self.journal.done.append(Done(path, key, kind, sent, answer))
        return answer.json()

    @property
    def journal(self) -> Journal:
        """Of the session that is being written."""
        return self.journals[-1]

    @property
    def _base(self) -> str:
        return f"/v1/sessions/{self.journal.session_id}"

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Breach(otherwise)
