"""What a request must lead to: events yet to come, or a refusal; and whether what came is that."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from proofs.client import is_object
from proofs.model.fold import ASKS, Event, Session, canonical, later

NOW = "\0now"
"""In an expected event: the time of that event. `NOW+500` is half a second later."""
_NEW = "\0new"
_numbers = count()


def new() -> str:
    """A name or token that the service makes up; the same one wherever it stands again."""
    return f"{_NEW}{next(_numbers)}"


def in_ms(ms: int) -> str:
    return f"{NOW}+{ms}"


class Refused(Exception):
    """The request is refused: its problem, and members that it must have."""

    def __init__(self, status: int, slug: str, **members: Any) -> None:
        super().__init__(slug)
        self.status, self.slug, self.members = status, slug, members


class Plan:
    """A session as it would stand, and the events that lead there. `due` are those for which no request is needed."""

    def __init__(self, session: Session, by: dict[str, str], now: str) -> None:
        self.session = session.copy()
        self.by = by
        self.events: list[Event] = []
        self.refused: Refused | None = None
        self.status = 200
        self.answer: Callable[[Session], dict[str, Any]] = lambda _: {}
        self.renews: str | None = None
        self._expire(now)
        self.due, self.events = self.events, []

    def emit(self, kind: str, data: dict[str, Any], *, derived: bool = False) -> Event:
        """One event; `derived` is one that the service adds by itself."""
        by = {"by": "layby"} if derived else self.by
        event = {"seq": self.session.seq + 1, "type": kind, "time": NOW, **by, "data": data}
        self.events.append(event)
        self.session.apply(event)
        return event

    def wait(self) -> None:
        waiting = self.session.waiting
        data = {"parked": bool(waiting), "reason": "parked" if waiting else "idle", "continuation_token": new()}
        self.emit("session.waiting", {**data, "pending_interrupt_ids": waiting}, derived=True)

    def idle_if_over(self) -> None:
        """After a call was closed."""
        if not self.session.waiting and not self.session.turn:
            self.wait()

    def _expire(self, now: str) -> None:
        calls = self.session.calls
        overdue = [name for name in self.session.waiting if calls[name].shown["expires_at"] <= now]
        for name in overdue:
            shown = calls[name].shown
            data = {"interrupt_id": name, "kind": shown["kind"], "expires_at": shown["expires_at"]}
            self.emit("input.expired", data, derived=True)
        if overdue:
            self.idle_if_over()
        for name, call in calls.items():
            if call.state == "claimed" and call.own()["execution"]["lease_until"] <= now:
                self.emit("action.lapsed", {"interrupt_id": name, "attempt": call.attempt}, derived=True)


class Differs(Exception):
    """What came is not what had to come; the message shows both."""


def matched(plan: Plan, events: list[Event], session: Session) -> None:
    """Take the events that came into the session, if they are those of the plan. Raises `Differs`."""
    due, rest = events[: len(plan.due)], events[len(plan.due) :]
    names: dict[str, str] = {}
    expected = sorted(plan.due, key=_which)
    if [_which(event) for event in sorted(due, key=_which)] != [_which(event) for event in expected]:
        raise Differs(f"what was due came otherwise: due was\n  {_told(plan.due)}\nand what came is\n  {_told(events)}")
    for event, known in zip(sorted(due, key=_which), expected, strict=True):
        _match({**known, "seq": event["seq"]}, event, names)
    for event in due:
        _not_early(session, event)
        session.apply(event)
    if [event["type"] for event in rest] != [event["type"] for event in plan.events]:
        raise Differs(
            f"{[e['type'] for e in rest]} came: expected\n  {_told(plan.events)}\nand what came is\n  {_told(rest)}"
        )
    for known, event in zip(plan.events, rest, strict=True):
        _match(known, event, names)
        if event["time"] < session.updated_at:
            raise Differs(f"time went back: {event} after {session.updated_at}")
        session.apply(event)


def _told(events: list[Event]) -> str:
    return "\n  ".join(map(str, events)) or "nothing"


def _which(event: Event) -> tuple[str, str]:
    return event["type"], event["data"].get("interrupt_id", "")


def _not_early(session: Session, event: Event) -> None:
    """Whatever the order in which several deadlines took effect: none did before its time, and the session waited as
    soon as the last one had."""
    if (
        event["type"] == "input.expired"
        and event["time"] < session.calls[event["data"]["interrupt_id"]].shown["expires_at"]
    ):
        raise Differs(f"expired before its time: {event}")
    if event["type"] == "session.waiting" and session.waiting:
        raise Differs(f"{session.waiting} still wait, and yet {event}")


def _match(known: Any, found: Any, names: dict[str, str]) -> None:
    filled = _filled(known, found, found["time"], names)
    if canonical(_plain(filled)) != canonical(_plain(found)):
        raise Differs(f"another {found['type']} came: expected {filled}\nfound    {found}")


def _filled(known: Any, found: Any, now: str, names: dict[str, str]) -> Any:
    """What is expected, with what only the service could know taken from what was found."""
    if is_object(known):
        others: dict[str, Any] = found if is_object(found) else {}
        return {name: _filled(value, others.get(name), now, names) for name, value in known.items()}
    if not isinstance(known, str):
        return known
    if known.startswith(_NEW):
        fresh = isinstance(found, str) and found and found not in names.values()
        return names.setdefault(known, found) if fresh else names.get(known, "<a new name>")
    if known.startswith(NOW):
        return later(now, int(known.partition("+")[2] or 0))
    return known


def _plain(event: Event) -> Event:
    """A request for a decision without members that say no more than their default."""
    if event["type"] not in ASKS:
        return event
    data = {name: value for name, value in event["data"].items() if value is not None and value is not False}
    return {**event, "data": data}
