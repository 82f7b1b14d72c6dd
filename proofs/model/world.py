"""All sessions, as the protocol says that they must be: what every request hears, and what every list shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from proofs.model.fold import Call, Session, as_text
from proofs.model.orders import Order
from proofs.model.plan import Plan, Refused


def now() -> str:
    """This machine's clock, which is the engine's too."""
    return as_text(datetime.fromtimestamp(time.time(), UTC))


@dataclass(frozen=True)
class Kept:
    """A request with an Idempotency-Key, and its answer."""

    order: Order
    key: str
    status: int
    answer: Any


@dataclass
class World:
    """The model. Sessions are in the order in which they were made."""

    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    deleted: set[str] = field(default_factory=set[str])
    kept: dict[tuple[str, str, str], Kept] = field(default_factory=dict[tuple[str, str, str], Kept])

    def plan(self, order: Order) -> Plan:
        """What the order must lead to now."""
        session = self.sessions.get(order.session_id) or Session(order.session_id)
        plan = Plan(session, order.by, now())
        try:
            self._refuse(order)
            order.rule(plan)
        except Refused as refused:
            plan.refused = refused
            if refused.slug != "call-expired":  # the one refusal that leaves a trace
                plan.events = []
        return plan

    def _refuse(self, order: Order) -> None:
        if order.malformed:
            raise Refused(422, "invalid-request")
        self.refuse_absent(order.session_id, creates=order.creates)

    def refuse_absent(self, session_id: str, *, creates: bool = False) -> None:
        if session_id in self.deleted:
            raise Refused(410, "session-deleted")
        if session_id not in self.sessions and not creates:
            raise Refused(404, "session-not-found")

    def before(self, order: Order, key: str) -> Kept | None:
        """The request that had this key before."""
        return self.kept.get((order.path, order.actor, key)) if key else None

    def keep(self, order: Order, key: str, status: int, answer: Any) -> None:
        if key:
            self.kept[order.path, order.actor, key] = Kept(order, key, status, answer)

    def delete(self, session_id: str) -> None:
        del self.sessions[session_id]
        self.deleted.add(session_id)

    def rows(self, wanted: dict[str, str]) -> list[dict[str, Any]]:
        """The list of sessions under these filters, newest activity first; which of two as new comes first is open."""
        rows = _filtered((session.row() for session in self.sessions.values()), wanted)
        return sorted(rows, key=lambda row: row["updated_at"], reverse=True)

    def inbox(self, wanted: dict[str, str]) -> list[dict[str, Any]]:
        """The calls under these filters, nearest deadline first."""
        wanted = {"status": "PENDING_APPROVAL", **wanted}
        agent = wanted.pop("agent", None)
        of_agent = [one for one in self.sessions.values() if agent in (None, one.agent)]
        calls = _filtered((call.shown for one in of_agent for call in one.calls.values()), wanted)
        return sorted(calls, key=lambda call: call["expires_at"])

    def calls(self, holds: Callable[[Call], object]) -> list[tuple[str, str]]:
        """Session and name of every call for which this holds."""
        every = ((sid, name, call) for sid, one in self.sessions.items() for name, call in one.calls.items())
        return [(sid, name) for sid, name, call in every if holds(call)]


def _filtered(rows: Iterable[dict[str, Any]], wanted: dict[str, str]) -> list[dict[str, Any]]:
    as_asked = {True: "true", False: "false"}
    return [row for row in rows if all(as_asked.get(row[n], row[n]) == value for n, value in wanted.items())]
