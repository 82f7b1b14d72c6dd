"""Every kind of request that changes something: what must be there before it, and how it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from proofs.client import Answer, Client
from proofs.proof import Breach

JSON, NDJSON = "application/json", "application/x-ndjson"
LEASE_MS = 100
LONG_MS = 3_600_000
V1, ZHIN = "/v1/sessions", "/zhin/v1"


@dataclass(slots=True)
class Scene:
    """One session before the request. Of a session that the request makes `session_id` is the name it gives, if any."""

    session_id: str
    client: Client
    token: str = ""

    @property
    def path(self) -> str:
        return f"{V1}/{self.session_id}"

    @property
    def call(self) -> str:
        return f"{self.path}/calls/c1"

    async def post(self, path: str, body: Any, key: str) -> Answer:
        """Straight, and it must succeed."""
        answer, _ = await self.client.insist("POST", path, body, key=f"{self.session_id} {key}")
        if answer.status >= 300:
            raise Breach(f"POST {path} {body} heard {answer}")
        return answer


Prepare = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A request. `path` and `body` may name what the scene knows."""

    name: str
    path: Callable[[Scene], str]
    body: Callable[[Scene], Any]
    prepare: tuple[Prepare, ...] = ()
    method: str = "POST"
    lines: bool = False
    makes: bool = field(default=False)
    """It makes a session, whose id the answer tells."""

    @property
    def content_type(self) -> str:
        return NDJSON if self.lines else JSON

    def sent(self, scene: Scene) -> bytes:
        body = self.body(scene)
        if self.method == "DELETE":
            return b""
        return ("\n".join(map(json.dumps, body)) + "\n" if self.lines else json.dumps(body)).encode()

    def session_of(self, scene: Scene, answer: Answer | None) -> str:
        told: dict[str, Any] = answer.json() if answer and self.makes else {}
        return told.get("session_id") or told.get("sessionId") or scene.session_id


async def _created(scene: Scene) -> None:
    answer = await scene.post(V1, {"session_id": scene.session_id, "agent": "wire"}, "create")
    scene.token = answer.json()["continuation_token"]


async def _created_by_zhin(scene: Scene) -> None:
    told = (await scene.post(f"{ZHIN}/session", {"message": "hello"}, "create")).json()
    scene.session_id, scene.token = told["sessionId"], told["continuationToken"]


def _asked(**more: Any) -> Prepare:
    async def ask(scene: Scene) -> None:
        await scene.post(f"{scene.path}/events", _ask(**more), "ask")

    return ask


def _ask(**more: Any) -> dict[str, Any]:
    known = {"interrupt_id": "c1", "tool_name": "pay", "tool_args": {"amount": 1}, "expires_in_ms": LONG_MS}
    return {"type": "input.requested", "data": known | more}


async def _connecting(scene: Scene) -> None:
    data = {"interrupt_id": f"a-{scene.session_id}", "connection": "mail", "expires_in_ms": LONG_MS}
    await scene.post(f"{scene.path}/events", {"type": "authorization.required", "data": data}, "connect")


async def _approved(scene: Scene) -> None:
    await scene.post(f"{scene.call}/decision", {"action": "approve"}, "approve")


def _claimed(lease_ms: int) -> Prepare:
    async def claim(scene: Scene) -> None:
        await scene.post(f"{scene.call}/claim", {"owner": "worker", "lease_ms": lease_ms}, "claim")

    return claim


async def _vanished(scene: Scene) -> None:
    """The worker's lease passes: what became of the call is not known."""
    while (await scene.client.request("GET", scene.call)).json()["execution"]["state"] != "indeterminate":
        await asyncio.sleep(0.02)


def _notes(count: int) -> list[dict[str, Any]]:
    return [{"type": "note.taken", "data": {"n": number}} for number in range(count)]


def _events(scene: Scene) -> str:
    return f"{scene.path}/events"


def _act(verb: str) -> Callable[[Scene], str]:
    return lambda scene: f"{scene.call}/{verb}"


_WAITS = (_created, _asked())
_RUNS = (*_WAITS, _approved, _claimed(LONG_MS))

KINDS = (
    Kind("create", lambda _: V1, lambda s: {"session_id": s.session_id, "agent": "wire"}, makes=True),
    Kind("create, unnamed", lambda _: V1, lambda s: {"agent": "wire", "metadata": {"of": s.session_id}}, makes=True),
    Kind("create with a message", lambda _: V1, lambda s: {"session_id": s.session_id, "message": "hello"}, makes=True),
    Kind("publish", _events, lambda _: _notes(1)[0], (_created,)),
    Kind("publish a batch", _events, lambda _: _notes(3), (_created,)),
    Kind("publish lines", _events, lambda _: _notes(3), (_created,), lines=True),
    Kind("ask", _events, lambda _: _ask(), (_created,)),
    Kind(
        "message", lambda s: f"{s.path}/messages", lambda s: {"continuation_token": s.token, "message": "go on"},
        (_created,),
    ),
    Kind("decide", _act("decision"), lambda _: {"action": "approve"}, _WAITS),
    Kind(
        "respond", _act("decision"), lambda _: {"action": "respond", "response": "blue"},
        (_created, _asked(kind="question")),
    ),
    Kind(
        "complete an authorization",
        lambda s: f"{s.path}/authorizations/a-{s.session_id}/complete", lambda _: {"success": True},
        (_created, _connecting),
    ),
    Kind("claim", _act("claim"), lambda _: {"owner": "worker", "lease_ms": LONG_MS}, (*_WAITS, _approved)),
    Kind("release", _act("release"), lambda _: {"attempt": 1}, _RUNS),
    Kind("result", _act("result"), lambda _: {"attempt": 1, "result": {"paid": 1}}, _RUNS),
    Kind(
        "settle", _act("settle"), lambda _: {"outcome": "not_executed", "note": "looked"},
        (*_WAITS, _approved, _claimed(LEASE_MS), _vanished),
    ),
    Kind("zhin: create", lambda _: f"{ZHIN}/session", lambda s: {"message": f"hello {s.session_id}"}, makes=True),
    Kind(
        "zhin: message", lambda s: f"{ZHIN}/session/{s.session_id}",
        lambda s: {"continuationToken": s.token, "message": "go on"}, (_created_by_zhin,),
    ),
    Kind(
        "zhin: input", lambda s: f"{ZHIN}/session/{s.session_id}/input",
        lambda _: {"requestId": "c1", "approved": True}, _WAITS,
    ),
    Kind(
        "zhin: authorization", lambda s: f"{ZHIN}/authorization/a-{s.session_id}/complete", lambda _: {"success": True},
        (_created, _connecting),
    ),
)  # fmt: skip
KEYLESS = tuple(kind for kind in KINDS if kind.name not in ("create, unnamed", "zhin: create"))
"""Of those whose session is known beforehand it can be told what became of them, even if no answer came."""
DELETION = Kind("delete", lambda s: s.path, lambda _: None, (_created, _asked()), method="DELETE")
