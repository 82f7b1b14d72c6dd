"""Everything that can be read, compared with the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proofs.client import Answer
from proofs.model.drivers import Driver
from proofs.model.fold import Event, Session, canonical, same
from proofs.model.orders import path_of
from proofs.model.plan import Differs, Refused
from proofs.model.world import World

FILTERS: Sequence[dict[str, str]] = (
    {"status": "waiting"}, {"status": "running"}, {"parked": "true"}, {"status": "waiting", "parked": "false"},
    {"agent": "ann"}, {"agent": "bob", "status": "waiting"}, {"status": "completed"}, {"status": "failed"},
    {"agent": "ann", "parked": "false"}, {"parked": "false"},
)  # fmt: skip
CALL_FILTERS: Sequence[dict[str, str]] = (
    {"status": "APPROVED_EXECUTING"}, {"status": "EXECUTED"}, {"status": "REJECTED"}, {"status": "EXPIRED"},
    {"tool_name": "pay"}, {"agent": "ann"}, {"tool_name": "pay", "agent": "bob"},
    {"tool_name": "question", "status": "EXECUTED"}, {"status": "REJECTED", "agent": "ann"},
)  # fmt: skip
PLAIN = {"Accept": "application/json"}


class Looker:
    """Reads, and raises `Differs` where an answer is not what the model says."""

    def __init__(self, driver: Driver, world: World, *, limit: int = 0) -> None:
        """`limit` is the size of pages; without one it changes from list to list."""
        self._driver, self._world, self._limit = driver, world, limit
        self._shown: dict[tuple[str, int], bytes] = {}
        self.reads = self.points = 0

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        self.reads += 1
        return self._driver.request("GET", path, b"", headers or {})

    def json(self, path: str) -> Any:
        answer = self.get(path, PLAIN)
        if answer.status != 200:
            raise Differs(f"GET {path}: {answer}")
        return answer.json()

    def expect(self, what: str, found: Any, known: Any) -> None:
        if not same(found, known):
            raise Differs(f"{what}: expected\n  {canonical(known)}\nfound\n  {canonical(found)}")

    def events(self, session_id: str, start: int) -> list[Event]:
        """All from there on."""
        found = list[Event]()
        following: int | None = start
        while following:
            page = self.json(f"{path_of(session_id, 'events')}?from={following}")
            found += page["events"]
            following = page["next_from"]
        self.expect("seqs", [event["seq"] for event in found], list(range(start, start + len(found))))
        return found

    def session(self, session: Session, step: int) -> None:
        """A session as it is now, and at some points of its past: the newest, and others in turn."""
        path = path_of(session.session_id)
        answer = self.get(path)
        self._snapshot(path, answer, session, session.seq)
        if step % 3 == 0:
            again = self.get(path, {"If-None-Match": answer.headers["etag"]})
            self.expect("status under If-None-Match", again.status, 304)
        if session.seq:
            for seq in {session.seq - 1 or 1, step % session.seq + 1, 7 * step % session.seq + 1}:
                self.past(session, seq)
            self._parts(session, "steps" if step % 2 else "calls")
        if step % 8 == 0:
            self._at_time(session, step)

    def now(self, session: Session) -> None:
        """A session as it is now, whole."""
        path = path_of(session.session_id)
        self._snapshot(path, self.get(path), session, session.seq)
        for kind in ("steps", "calls"):
            self._parts(session, kind)

    def _snapshot(self, path: str, answer: Answer, session: Session, seq: int) -> None:
        if answer.status != 200:
            raise Differs(f"GET {path}: {answer}")
        if (found := canonical(answer.json())) != session.past[seq]:
            raise Differs(f"GET {path}: expected\n  {session.past[seq]}\nfound\n  {found}")
        self.expect(f"ETag of {path}", answer.headers["etag"], f'"{seq}"')
        if self._shown.setdefault((session.session_id, seq), answer.body) != answer.body:
            raise Differs(f"GET {path}: other bytes than before for the same point: {answer.body!r}")

    def past(self, session: Session, seq: int) -> None:
        path = f"{path_of(session.session_id)}?at={seq}"
        self._snapshot(path, self.get(path), session, seq)
        self.points += 1

    def whole_past(self, session: Session, known: list[Event]) -> None:
        """Every point, every event, and none beyond."""
        for seq in range(1, session.seq + 1):
            self.past(session, seq)
        path = f"{path_of(session.session_id)}?at={session.seq + 1}"
        self.expect(path, self.get(path).problem, "no-such-point")
        self.expect(f"events of {session.session_id}", self.events(session.session_id, 1), known)
        self.now(session)

    def _at_time(self, session: Session, step: int) -> None:
        time = self.json(f"{path_of(session.session_id)}?at={step % session.seq + 1}")["updated_at"]
        seq = max(int(self.json(f"{path_of(session.session_id)}?at_time={time}")["seq"]), 1)
        self.expect(f"the time of the point at_time={time}", self._time(session, seq), time)
        if seq < session.seq and self._time(session, seq + 1) <= time:
            raise Differs(f"at_time={time} answered seq {seq}, though {seq + 1} was there by then")

    def _time(self, session: Session, seq: int) -> str:
        return self.json(f"{path_of(session.session_id)}?at={seq}")["updated_at"]

    def _parts(self, session: Session, kind: str) -> None:
        limit = self._limit or 3
        known = session.steps if kind == "steps" else [call.shown for call in session.calls.values()]
        self.expect(kind, self.pages(f"{path_of(session.session_id, kind)}?limit={limit}", kind), known)

    def pages(self, path: str, kind: str) -> list[Any]:
        """What a list holds, by following its cursors."""
        found, cursor = list[Any](), ""
        while True:
            page = self.json(f"{path}&cursor={cursor}" if cursor else path)
            found += page[kind]
            if "total" in page and page["total"] < len(found):
                raise Differs(f"GET {path}: total {page['total']}, and {len(found)} were listed")
            if page["next_cursor"] is None:
                return found
            cursor = page["next_cursor"]

    def call(self, session: Session, name: str) -> None:
        """The routes of one call."""
        path, call = path_of(session.session_id, "calls", name), session.calls.get(name)
        if call is None:
            self.expect(path, self.get(path).problem, "call-not-found")
            return
        own = call.own()
        self.expect(path, self.json(path), own)
        parts = ("interrupt_id", "tool_name", "tool_args", "status", "expires_at", "decision", "result", "updated_at")
        document = {"version": 2, "pending_tool_call": {part: own[part] for part in parts}}
        document["run_context"] = {part: own[part] for part in ("thread_id", "run_id")}
        self.expect(f"{path}/state_snapshot", self.json(f"{path}/state_snapshot"), document)

    def lists(self, step: int) -> None:
        """The list of sessions and the inbox: whole, and under one filter each."""
        for wanted in ({}, FILTERS[step % len(FILTERS)]):
            self._list("/v1/sessions", "sessions", "updated_at", wanted, self._world.rows(wanted), step)
        for wanted in ({}, CALL_FILTERS[step % len(CALL_FILTERS)]):
            self._list("/v1/calls", "calls", "expires_at", wanted, self._world.inbox(wanted), step)

    def all_lists(self) -> None:
        for step in range(len(FILTERS)):
            self.lists(step)

    def _list(
        self, path: str, kind: str, by: str, wanted: dict[str, str], known: list[dict[str, Any]], step: int
    ) -> None:
        limit = self._limit or 2 + step % 3 * 9
        query = "&".join(f"{name}={value}" for name, value in {**wanted, "limit": str(limit)}.items())
        found = self.pages(f"{path}?{query}", kind)
        times = [one[by] for one in found]
        self.expect(f"order of {path}?{query}", times, [one[by] for one in known])
        self.expect(f"{path}?{query}", sorted(map(canonical, found)), sorted(map(canonical, known)))

    def absent(self, session_id: str, step: int) -> None:
        """A session that was deleted, or never was, on one of its routes."""
        try:
            self._world.refuse_absent(session_id)
        except Refused as refused:
            parts = [(), ("events",), ("calls",), ("steps",), ("calls", "c1"), ("stream",)][step % 6]
            path = path_of(session_id, *parts)
            self.expect(path, self.get(path).problem, refused.slug)
