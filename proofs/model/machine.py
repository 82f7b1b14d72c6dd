"""What can happen, as Hypothesis chooses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from proofs.model import orders
from proofs.model.fold import Call, Session, later
from proofs.model.judge import LEASE_MS, SHORT_MS, Judge
from proofs.model.orders import Body, Sent
from proofs.model.plan import Plan
from proofs.model.world import now

NAMES = ["c1", "c2", "\u00e9:3"]
PEOPLE = ["", "anna", "ben"]
OWNERS = ["w1", "w2"]
SESSIONS = [0, 0, 0, 1, 1, 2]
KEYS = ["", "", "", "k1", "k2"]
VALUES: list[Any] = [None, False, 0, "why", {"a": [2**70, "\u2028"]}]
ASKED = sorted(orders.ASKS)
PLAIN = [
    "note.taken", "turn.started", "turn.started", "turn.completed", "turn.completed", "turn.failed", "turn.cancelled",
    "step.started", "step.completed", "step.interrupted", "message.appended", "action.result",
]  # fmt: skip
HOUR_MS = 3_600_000

_T = TypeVar("_T")
_Do = Callable[["Machine"], None]
_ACTIONS: list[tuple[str, int, Callable[[Machine], object]]] = []


def _may(weight: int, when: Callable[[Machine], object] = lambda _: True) -> Callable[[_Do], _Do]:
    """Something that can happen: so many times as likely as what has weight 1, where this holds."""

    def noted(do: _Do) -> _Do:
        _ACTIONS.append((do.__name__, weight, when))
        return do

    return noted


class Machine(RuleBasedStateMachine, Judge):
    """A few sessions of one service."""

    mostly: ClassVar[frozenset[str]] = frozenset()
    """What happens ten times as often as else."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        Judge.__init__(self)
        self.shared = later(now(), 2 * HOUR_MS)
        self.fresh = count(1)
        self.keys = [f"{self.prefix}{name}" if name else "" for name in KEYS]
        self.data: st.DataObject

    def teardown(self) -> None:
        self.end()

    def one(self, choices: Sequence[_T]) -> _T:
        return self.data.draw(st.sampled_from(choices))

    def seldom(self) -> bool:
        return self.one([False, False, False, True])

    @initialize(modes=st.sampled_from([("turn", "turn"), ("turn", "explicit"), ("explicit", "turn"), ("turn",)]))
    def begin(self, modes: tuple[str, ...]) -> None:
        for number, mode in enumerate(modes):
            self.order(orders.create(self.sid(number), agent="ann" if number else "bob", steps=mode))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """One of what can happen now. It is one rule, so that every run can hold all of it."""
        self.data = data
        possible = [name for name, weight, when in _ACTIONS if when(self) for _ in range(self._weight(name, weight))]
        getattr(self, self.one(possible))()

    def _weight(self, name: str, weight: int) -> int:
        return weight if name not in self.mostly else 10 * weight

    def waiting(self) -> list[tuple[str, str]]:
        return self.world.calls(lambda call: call.status == "PENDING_APPROVAL")

    def approved(self) -> list[tuple[str, str]]:
        return self.world.calls(lambda call: call.status == "APPROVED_EXECUTING")

    def expired(self) -> list[tuple[str, str]]:
        return self.world.calls(lambda call: call.status == "EXPIRED")

    def decided(self) -> list[tuple[str, str]]:
        return self.world.calls(lambda call: call.shown["decision"] and call.shown["decision"]["action"] != "cancel")

    def call(self, place: tuple[str, str]) -> Call:
        return self.world.sessions[place[0]].calls[place[1]]

    def any_place(self) -> tuple[str, str]:
        """A session and a call, which need not exist."""
        return self.sid(self.one(SESSIONS)), self.one(NAMES)

    @_may(4)
    def turn(self) -> None:
        """Turns with calls in them, so that what hangs on that is met often."""
        session = self.session(self.one(SESSIONS))
        ends = ["turn.completed", "turn.completed", "turn.failed", "turn.cancelled"]
        events = [orders.event(self.one(ends) if session.turn else "turn.started")]
        if not session.turn and session.mode == "explicit":
            events.append(orders.event("step.started", step_id=f"st{next(self.fresh)}"))
        if not session.turn:
            events.append(self._ask())
        self.order(orders.publish(session.session_id, events))

    # Sessions

    @_may(1)
    def create(self) -> None:
        more: Body = self.one([{}, {"message": "hi"}, {"metadata": {"a": [1]}, "run_id": "r", "thread_id": "t"}])
        more |= self.one([{"agent": "ann"}, {"agent": "bob"}, {}])
        session_id = self.sid(self.one([1, 2, 0]))
        self.order(orders.create(session_id, steps=self.one(["turn", "explicit"]), **more), self.one(self.keys))

    @_may(3)
    def message(self) -> None:
        session = self.session(self.one(SESSIONS))
        token = self.one([session.token, session.token, "old", *self._older_tokens(session)])
        self.order(orders.message(session.session_id, token, "hi"), self.one(self.keys))

    def _older_tokens(self, session: Session) -> list[str]:
        tokens = {json.loads(past)["continuation_token"]: None for past in session.past.values()}
        return list(tokens)[-2:]

    @_may(1, lambda self: len(self.world.sessions) > 1)
    def delete(self) -> None:
        if self.seldom():
            self.gone(self.one(list(self.world.sessions)))

    # Publishing

    @_may(8)
    def publish(self) -> None:
        session = self.session(self.one(SESSIONS))
        events = [self._event(session) for _ in range(self.one([1, 1, 2, 3]))]
        here = Plan(session, {}, now()).session.seq
        version = self.one([None, None, None, here, here + 1])
        self.order(orders.publish(session.session_id, events, version), self.one(self.keys))

    def _event(self, session: Session) -> Sent:
        if self.one([True, False]):
            return self._ask()
        kind = self.one(PLAIN)
        if kind.startswith("step."):
            open_id = session.open_step["step_id"] if session.open_step else "none"
            step_id = f"st{next(self.fresh)}" if kind == "step.started" else open_id
            why = {"interrupt_kind": "approval", "interrupt_id": "c1"} if kind == "step.interrupted" else {}
            return orders.event(kind, step_id=step_id, **why)
        if kind == "action.result":
            return orders.event(kind, interrupt_id=self.one(NAMES), result=1)
        return orders.event(kind, **({"text": "\u2028"} if kind == "note.taken" else {}))

    def _ask(self) -> Sent:
        deadline = self.one([{}, {"expires_in_ms": HOUR_MS}, {"expires_at": self.shared}])
        form = self.one(["plain", "plain", "camel", "snapshot"])
        return orders.ask(self.one(NAMES), self.one(ASKED), deadline, form)

    @_may(1)
    def reserved(self) -> None:
        kind = self.one(["session.waiting", "input.completed", "action.claimed", "step.started"])
        events = [orders.event("note.taken"), orders.event(kind, step_id=f"st{next(self.fresh)}")]
        self.order(orders.publish(self.sid(self.one(SESSIONS)), events))

    @_may(2)
    def close(self) -> None:
        number, kind = self.one(SESSIONS), self.one(["session.completed", "session.failed"])
        if self.seldom() or self.session(number).ended:  # little can follow
            self.order(orders.publish(self.sid(number), [orders.event(kind)]))

    # Decisions

    @_may(1)
    def decide(self) -> None:
        self._decide(self.any_place(), self.one(["note", "extra", ""]))

    @_may(8, lambda self: self.waiting())
    def decide_what_waits(self) -> None:
        place = self.one(self.waiting())
        if self.call(place).shown["kind"] == "authorization":
            body = {"success": self.one([True, False])} | self.one([{}, {"error": "denied"}])
            self.order(orders.authorize(*place, body, self.one(PEOPLE)), self.one(self.keys))
        else:
            self._decide(place, self.one(["", "", "note", "edit", "wrong run", "right run", "old view", "same view"]))

    def _decide(self, place: tuple[str, str], extra: str) -> None:
        session = self.world.sessions.get(place[0])
        call = session.calls.get(place[1]) if session else None
        action = self.one([*(call.shown["options"] if call else []), "approve", "respond"])
        body = {"action": action} | (
            {"response": self.one(VALUES)} if (action == "respond") != (extra == "extra") else {}
        )
        body |= {
            "note": {"note": "seen"}, "edit": {"edited_args": {"text": "b"}}, "wrong run": {"run_id": "other"},
            "right run": {"thread_id": call.shown["thread_id"]} if call else {}, "old view": {"args_digest": "old"},
            "same view": {"args_digest": call.shown["args_digest"]} if call else {},
        }.get(extra, {})  # fmt: skip
        self.order(orders.on_call("decision", *place, body, self.one(PEOPLE)), self.one(self.keys))

    @_may(2, lambda self: self.expired())
    def decide_too_late(self) -> None:
        place = self.one(self.expired())
        if self.call(place).shown["kind"] == "authorization":
            self.order(orders.authorize(*place, {"success": True}, self.one(PEOPLE)))
        else:
            self._decide(place, "")

    @_may(4, lambda self: self.decided())
    def decide_again(self) -> None:
        """The same decision, by the same person or another."""
        place = self.one(self.decided())
        shown, by = self.call(place).shown, self.one(PEOPLE)
        decision = shown["decision"]
        if shown["kind"] == "authorization":
            self.order(orders.authorize(*place, {"success": decision["action"] == "approve"}, by))
            return
        body = {"action": decision["action"], "note": "again"}
        body |= {"response": decision["response"]} if decision["action"] == "respond" else {}
        body |= {"edited_args": decision["edited_args"]} if decision["edited_args"] is not None else {}
        self.order(orders.on_call("decision", *place, body, by))

    @_may(1)
    def authorize(self) -> None:
        self.order(orders.authorize(*self.any_place(), {"success": self.one([True, False])}, self.one(PEOPLE)))

    # Execution

    @_may(1)
    def execute(self) -> None:
        self._execute(self.any_place(), self.one([1, 2, 3]))

    @_may(8, lambda self: self.approved())
    def execute_what_is_approved(self) -> None:
        place = self.one(self.approved())
        attempt = self.call(place).attempt
        self._execute(place, self.one([max(1, attempt), max(1, attempt), attempt + 1, max(1, attempt - 1)]))

    def _execute(self, place: tuple[str, str], attempt: int) -> None:
        verb = self.one(["claim", "claim", "claim", "release", "result", "settle"])
        bodies: dict[str, Callable[[], Body]] = {
            "claim": lambda: {"owner": self.one(OWNERS)},
            "release": lambda: {"attempt": attempt},
            "result": lambda: {
                "result": self.one(VALUES), **self.one([{"attempt": attempt}, {"attempt": attempt}, {}]),
                **self.one([{}, {}, {"is_error": True}]),
            },
            "settle": lambda: {
                "outcome": self.one(["executed", "not_executed"]), "note": "seen", "result": self.one(VALUES),
            },
        }  # fmt: skip
        self.order(orders.on_call(verb, *place, bodies[verb]()), self.one(self.keys))

    @_may(2, lambda self: self.decided())
    def tell_the_result_again(self) -> None:
        place = self.one(self.decided())
        shown = self.call(place).shown
        body = {"result": shown["result"], "is_error": shown["is_error"], "attempt": self.call(place).attempt}
        self.order(orders.on_call("result", *place, body))

    # Time, retries, ends

    @_may(3)
    def let_deadlines_pass(self) -> None:
        """They take effect before whatever comes next; even if nobody was there when they passed."""
        asks = [orders.ask(self.one(NAMES), self.one(ASKED), {"expires_in_ms": SHORT_MS})]
        asks += self.one([[], [orders.ask(self.one(NAMES), "pay", {"expires_in_ms": SHORT_MS + 1})]])
        self.short(orders.publish(self.sid(self.one(SESSIONS)), asks), SHORT_MS, down=self.seldom())

    @_may(3, lambda self: self.approved())
    def let_a_lease_pass(self) -> None:
        body = {"owner": self.one(OWNERS), "lease_ms": LEASE_MS}
        self.short(orders.on_call("claim", *self.one(self.approved()), body), LEASE_MS, down=self.seldom())

    @_may(3, lambda self: self.world.kept)
    def retry(self) -> None:
        """A request whose answer was lost is sent again; or another under its key."""
        kept = self.one(list(self.world.kept.values()))
        order = kept.order if self.one([True, True, False]) else replace(kept.order, body=kept.order.body + b" ")
        if order.session_id not in self.world.deleted:
            self.order(order, kept.key)

    @_may(1, lambda self: self.restarted < self.restarts_at_most)
    def restart_all(self) -> None:
        self.restart(hard=self.one([True, True, False]))
        self.everything()

    @_may(1, lambda self: self.restarted < self.restarts_at_most)
    def kill_under_way(self) -> None:
        """The answer never comes. The same request again is carried out once, whether it had been or not."""
        events = [self._ask(), orders.event("note.taken")]
        self.order(
            orders.publish(self.sid(self.one(SESSIONS)), events), f"{self.prefix}cut{next(self.fresh)}", cut=True
        )
