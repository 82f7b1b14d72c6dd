"""Requests that change something: as they are sent, and the rule that says what each leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from proofs.model import rules
from proofs.model.plan import Plan
from proofs.model.rules import Body

Sent = tuple[Body, Body]
"""An event as it is sent, and as the rules read it."""


@dataclass(frozen=True)
class Order:
    """One POST. Bodies are bytes, since retries compare them as such."""

    session_id: str
    path: str
    body: bytes
    rule: Callable[[Plan], None]
    actor: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    creates: bool = False
    malformed: bool = False
    """Its body is refused before anything is looked up."""

    @property
    def by(self) -> dict[str, str]:
        """What its events say of their writer."""
        return {"by": self.actor, "via": "anonymous"} if self.actor else {"by": "anonymous"}

    def all_headers(self, key: str = "") -> dict[str, str]:
        known = {"Idempotency-Key": key, "Layby-Actor": self.actor}
        return self.headers | {name: value for name, value in known.items() if value}


def path_of(session_id: str, *parts: str) -> str:
    return "/".join(["/v1/sessions", session_id, *(quote(part, safe="") for part in parts)])


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def create(session_id: str, **more: Any) -> Order:
    body = {"session_id": session_id, **more}
    return Order(session_id, "/v1/sessions", _json(body), partial(rules.create, body=body), creates=True)


def publish(session_id: str, events: Sequence[Sent], if_match: int | None = None) -> Order:
    wire, plain = [sent for sent, _ in events], [known for _, known in events]
    rule = partial(rules.publish, events=plain, if_match=if_match)
    headers = {} if if_match is None else {"If-Match": f'"{if_match}"'}
    body = _json(wire[0] if len(wire) == 1 else wire)
    return Order(session_id, path_of(session_id, "events"), body, rule, headers=headers)


def message(session_id: str, token: str, text: str) -> Order:
    body = {"continuation_token": token, "message": text}
    return Order(session_id, path_of(session_id, "messages"), _json(body), partial(rules.message, body=body))


def on_call(verb: str, session_id: str, name: str, body: Body, actor: str = "") -> Order:
    rule = partial(rules.CALL_RULES[verb], name=name, body=body)
    path = path_of(session_id, "calls", name, verb)
    return Order(session_id, path, _json(body), rule, actor, malformed=verb == "decision" and rules.malformed(body))


def authorize(session_id: str, name: str, body: Body, actor: str = "") -> Order:
    rule = partial(rules.authorize, name=name, body=body)
    return Order(session_id, path_of(session_id, "authorizations", name, "complete"), _json(body), rule, actor)


# Events that publishers send


def event(kind: str, **data: Any) -> Sent:
    plain = {"type": kind, "data": data}
    return plain, plain


ASKS: dict[str, Body] = {
    "pay": {"tool_name": "pay", "tool_args": {"amount": 1, "to": "\u00e9"}},
    "pay.again": {"tool_name": "pay", "tool_args": {"amount": 2}, "idempotent": True},
    "edit": {"tool_name": "edit", "tool_args": {"text": "\u2028"}, "allow_edits": True,
             "options": ["approve", "reject", "respond"]},
    "ask": {"kind": "question", "message": "how many?"},
    "ask.text": {"kind": "question", "message": "why?", "options": ["respond"], "response_schema": {"type": "string"}},
    "login": {"connection": "mail", "scope": ["read"], "auth_url": "https://mail.example/"},
}  # fmt: skip
"""What is asked for, by a short name."""


def ask(name: str, what: str, deadline: Body, how: str = "plain") -> Sent:
    """A request for a decision; `how` says in which of the forms that the service takes."""
    kind = "authorization.required" if what == "login" else "input.requested"
    data = {"interrupt_id": name, **ASKS[what], **deadline}
    plain = {"type": kind, "data": data}
    if how == "camel":
        return {"type": kind, "data": {_camel(key): value for key, value in data.items()}}, plain
    if how == "snapshot" and "tool_name" in data and "expires_at" in deadline:
        return _in_snapshot(data)
    return plain, plain


def _camel(name: str) -> str:
    older = {"interrupt_id": "requestId", "tool_args": "args", "message": "prompt"}
    return older.get(name) or re.sub(r"_(.)", lambda found: found[1].upper(), name)


def _in_snapshot(data: Body) -> Sent:
    inside = {name: data[name] for name in ("interrupt_id", "tool_name", "tool_args", "expires_at")}
    call = inside | {"status": "PENDING_APPROVAL", "decision": None, "result": None, "updated_at": data["expires_at"]}
    run = {"thread_id": "thread", "run_id": "run"}
    document = {"version": 2, "pending_tool_call": call, "run_context": run}
    rest = {name: value for name, value in data.items() if name not in inside}
    wire = {"type": "input.requested", "data": {**rest, "state_snapshot": document}}
    return wire, {"type": "input.requested", "data": {**data, **run}}
