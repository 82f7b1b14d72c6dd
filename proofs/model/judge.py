"""How a step is judged: one request goes to the service and to the model, and then everything is read."""

from __future__ import annotations

import time
from itertools import count
from typing import ClassVar

from proofs.client import Answer
from proofs.model import orders
from proofs.model.drivers import Driver
from proofs.model.fold import Event, Session
from proofs.model.looking import Looker
from proofs.model.orders import Order
from proofs.model.plan import Differs, Plan, matched
from proofs.model.world import Kept, World, now
from proofs.proof import Breach

SHORT_MS = 25
LEASE_MS = 100
"""The shortest lease that there is."""
MARGIN_S = 0.005


class Judge:
    """A few sessions of one service. What happened stands in `story`."""

    driver: ClassVar[Driver]
    restarts_at_most: ClassVar[int] = 1
    tally: ClassVar[dict[str, int]]
    _examples: ClassVar[count[int]] = count(1)

    def __init__(self) -> None:
        self.prefix = f"x{next(self._examples)}-"
        self.world = World()
        self.looker = Looker(self.driver, self.world)
        self.logs: dict[str, list[Event]] = {}
        self.story = list[str]()
        self.restarted = 0
        self.failed = False

    def order(self, order: Order, key: str = "", *, cut: bool = False) -> None:
        """Send it, and compare what came of it with what the model says."""
        self.tally["steps"] += 1
        step = self.tally["steps"]
        try:
            key = "" if order.malformed else key  # which of the two would be told first is left open
            before = self.world.before(order, key)
            if before and before.order.session_id not in self.world.deleted:
                self._repeat(order, before)
            elif not before:
                self._judge(order, key, cut)
            self._look(order, step)
        except Differs as differs:
            self.failed = True
            raise Breach(self._told(str(differs))) from None

    def _told(self, what: str) -> str:
        lines = [line if len(line) < 400 else line[:400] + "…" for line in self.story]
        return f"not as the model says: {what[:6000]}\nafter these requests:\n  " + "\n  ".join(lines)

    def _send(self, order: Order, key: str) -> Answer:
        answer = self.driver.request("POST", order.path, order.body, order.all_headers(key))
        said = answer.problem or answer.status
        self.story.append(f"POST {order.path} {order.body.decode()} {order.all_headers(key) or ''} -> {said}")
        return answer

    def _judge(self, order: Order, key: str, cut: bool) -> None:
        plan = self.world.plan(order)
        if cut and plan.refused is None:
            self._abandon(order, key)
        answer = self._send(order, key)
        session = self.world.sessions.get(order.session_id)
        if plan.refused is None and order.creates:
            session = self.world.sessions[order.session_id] = Session(order.session_id)
        if session:
            events = self.looker.events(session.session_id, session.seq + 1)
            matched(plan, events, session)
            self.logs.setdefault(session.session_id, []).extend(events)
            self.tally["events"] += len(events)
        self._answer(order, plan, answer, session)
        if plan.refused is None:
            self.world.keep(order, key, answer.status, answer.json())

    def _answer(self, order: Order, plan: Plan, answer: Answer, session: Session | None) -> None:
        if refused := plan.refused:
            self.tally["refusals"] += 1
            heard = [answer.status, answer.problem]
            self.looker.expect(f"POST {order.path}", heard, [refused.status, refused.slug])
            members = {name: answer.json().get(name) for name in refused.members}
            known = refused.members
            if session and "call" in known:
                known = known | {"call": session.calls[known["call"]["interrupt_id"]].own()}
            self.looker.expect(f"members of {refused.slug}", members, known)
            return
        assert session
        if answer.status != plan.status:
            raise Differs(f"POST {order.path}: expected {plan.status}, heard {answer}")
        found = answer.json()
        if plan.renews:
            session.calls[plan.renews].renewed_until = found["lease_until"]
        found.pop("durability", None)
        self.looker.expect(f"answer of {order.path}", found, plan.answer(session))

    def _repeat(self, order: Order, before: Kept) -> None:
        """The same key again: the first answer, or a refusal of another body; and nothing happens."""
        answer = self._send(order, before.key)
        if order.body == before.order.body:
            self.looker.expect("the answer to a retry", [answer.status, answer.json()], [before.status, before.answer])
            self.looker.expect("Idempotency-Replayed", answer.headers.get("idempotency-replayed"), "true")
        else:
            self.looker.expect("a key with another body", answer.problem, "idempotency-key-reused")
        self.tally["retries"] += 1

    def _look(self, order: Order, step: int) -> None:
        session = self.world.sessions.get(order.session_id)
        if session:
            self.looker.session(session, step)
            if "/calls/" in order.path or step % 5 == 0:
                self.looker.call(session, ("c1", "c2", "\u00e9:3")[step % 3])
        else:
            self.looker.absent(order.session_id, step)
        if step % 2:
            self.looker.lists(step // 2)

    def everything(self) -> None:
        try:
            for session in self.world.sessions.values():
                self._settle(session)
                self.looker.whole_past(session, self.logs[session.session_id])
            self.looker.all_lists()
        except Differs as differs:
            self.failed = True
            raise Breach(self._told(str(differs))) from None

    def _settle(self, session: Session) -> None:
        """Take in what fell due meanwhile."""
        events = self.looker.events(session.session_id, session.seq + 1)
        matched(Plan(session, {}, now()), events, session)
        self.logs[session.session_id] += events

    def end(self) -> None:
        """Every point of every past once more; then it all goes, so that lists are empty for those who come next."""
        try:
            if not self.failed:
                self.everything()
        finally:
            self.tally["examples"] += 1
            self.tally["points"] += self.looker.points
            self.tally["reads"] += self.looker.reads
            for name in self.world.sessions:
                self.driver.request("DELETE", orders.path_of(name), b"", {})

    def short(self, order: Order, ms: int, *, down: bool) -> None:
        """An order with a deadline so near that nothing may be read before it has passed: it could be in time, or
        not."""
        step = self.tally["steps"] = self.tally["steps"] + 1
        plan = self.world.plan(order)
        answer = self._send(order, "")
        if answer.status < 300:
            self._wait(ms)
            if down:
                self.restart()
        session = self.world.sessions.get(order.session_id)
        try:
            if session:
                self._take_in_parts(plan, session, answer)
            if plan.refused:
                self._answer(order, plan, answer, session)
            self._look(order, step)
        except Differs as differs:
            self.failed = True
            raise Breach(self._told(str(differs))) from None

    def _take_in_parts(self, plan: Plan, session: Session, answer: Answer) -> None:
        """What the order led to, and then what was due: read together, after it was."""
        events = self.looker.events(session.session_id, session.seq + 1)
        first = len(plan.due) + len(plan.events)
        matched(plan, events[:first], session)
        if plan.renews:
            session.calls[plan.renews].renewed_until = answer.json()["lease_until"]
        matched(Plan(session, {}, now()), events[first:], session)
        self.logs[session.session_id] += events

    def _wait(self, ms: int) -> None:
        time.sleep(ms / 1000 + MARGIN_S)
        self.story.append(f"(wait {ms} ms)")

    def restart(self, *, hard: bool = False) -> None:
        if self.restarted < self.restarts_at_most:
            self.restarted += 1
            self.story.append("(SIGKILL, and a new start)" if hard else "(restart)")
            (self.driver.kill if hard else self.driver.restart)()

    def gone(self, session_id: str) -> None:
        """Delete it."""
        answer = self.driver.request("DELETE", orders.path_of(session_id), b"", {})
        self.story.append(f"DELETE {session_id} -> {answer.status}")
        self.world.delete(session_id)
        if answer.status != 204:
            raise Breach(self._told(f"DELETE {session_id}: {answer}"))

    def _abandon(self, order: Order, key: str) -> None:
        self.restarted += 1
        self.story.append("(SIGKILL while the next one is under way; then it is sent again)")
        self.driver.abandon("POST", order.path, order.body, order.all_headers(key))

    def sid(self, number: int) -> str:
        return f"{self.prefix}s{number}"

    def session(self, number: int) -> Session:
        """The session, or what stands for one that is not there."""
        return self.world.sessions.get(self.sid(number)) or Session(self.sid(number))
