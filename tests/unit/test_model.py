"""The model that judges the service: what it makes of a log, and what it does not let pass."""

from __future__ import annotations

from typing import Any

import pytest

from proofs.model import orders
from proofs.model.fold import Event, Session, folded, same
from proofs.model.plan import Differs, Plan, matched
from proofs.model.world import World

START = "2026-11-29T12:00:00.000Z"
ASKED = "2026-11-29T12:00:01.000Z"
DUE = "2026-11-29T12:00:02.000Z"
LATER = "2026-11-29T12:00:03.000Z"


def _event(seq: int, kind: str, data: dict[str, Any], time: str = START, by: str = "layby") -> Event:
    return {"seq": seq, "type": kind, "time": time, "by": by, "data": data}


STARTED = _event(1, "session.started", {
    "agent": "ann", "thread_id": "s", "run_id": "run_1", "steps": "turn", "metadata": {}, "continuation_token": "t1",
}, by="anonymous")  # fmt: skip
REQUESTED = _event(2, "input.requested", {
    "interrupt_id": "c1", "tool_name": "pay", "tool_args": {}, "expires_at": DUE, "run_id": "run_1", "thread_id": "s",
    "kind": "approval", "options": ["approve", "reject"], "args_digest": "sha256:0",
}, ASKED, "anonymous")  # fmt: skip


def _waiting(seq: int, token: str, names: list[str], time: str = ASKED) -> Event:
    data = {"parked": bool(names), "reason": "parked" if names else "idle", "continuation_token": token}
    return _event(seq, "session.waiting", {**data, "pending_interrupt_ids": names}, time)


def _expired(seq: int, time: str) -> Event:
    return _event(seq, "input.expired", {"interrupt_id": "c1", "kind": "approval", "expires_at": DUE}, time)


LOG = [STARTED, REQUESTED, _waiting(3, "t2", ["c1"])]


def _session() -> Session:
    return folded("s", LOG, remember=True)


def _planned(order: orders.Order, now: str = ASKED) -> tuple[Plan, Session]:
    session = _session()
    plan = Plan(session, order.by, now)
    order.rule(plan)
    return plan, session


NOTE = orders.publish("s", [orders.event("note.taken")])
APPROVE = orders.on_call("decision", "s", "c1", {"action": "approve"}, "anna")


def test_a_log_makes_a_snapshot() -> None:
    shown = _session().snapshot()
    assert (shown["status"], shown["parked"], shown["seq"], shown["continuation_token"]) == ("waiting", True, 3, "t2")
    assert [call["status"] for call in shown["calls"]] == ["PENDING_APPROVAL"]
    assert '"status":"running"' in _session().past[1]


def test_what_must_come_is_taken_in() -> None:
    plan, session = _planned(NOTE)
    matched(plan, [_event(4, "note.taken", {}, ASKED, "anonymous")], session)
    assert session.seq == 4


@pytest.mark.parametrize(
    "came",
    [
        pytest.param([], id="nothing"),
        pytest.param([_event(4, "note.taken", {}, ASKED)], id="by somebody else"),
        pytest.param([_event(4, "note.taken", {"a": 0}, ASKED, "anonymous")], id="with other data"),
        pytest.param([_event(4, "note.taken", {}, START, "anonymous")], id="before what was there"),
        pytest.param([_event(4, "note.taken", {}, ASKED, "anonymous")] * 2, id="twice"),
    ],
)
def test_what_must_not_come_is_not_let_pass(came: list[Event]) -> None:
    plan, session = _planned(NOTE)
    with pytest.raises(Differs):
        matched(plan, came, session)


def test_what_is_due_comes_first() -> None:
    plan, session = _planned(NOTE, LATER)
    note = _event(6, "note.taken", {}, LATER, "anonymous")
    matched(plan, [_expired(4, LATER), _waiting(5, "t3", [], LATER), note], session)
    assert session.calls["c1"].status == "EXPIRED"


def test_a_deadline_takes_effect_neither_early_nor_never() -> None:
    plan, session = _planned(NOTE, LATER)
    early = [_expired(4, ASKED), _waiting(5, "t3", []), _event(6, "note.taken", {}, LATER, "anonymous")]
    with pytest.raises(Differs, match="before its time"):
        matched(plan, early, session)
    plan, session = _planned(NOTE, LATER)
    with pytest.raises(Differs):
        matched(plan, [_event(4, "note.taken", {}, LATER, "anonymous")], session)


def test_a_token_that_was_there_before_is_not_new() -> None:
    plan, session = _planned(orders.publish("s", [orders.event("turn.started"), orders.event("turn.completed")]))
    ids = {"step_id": "st", "turn_id": "tu"}
    came = [
        _event(4, "turn.started", {"turn_id": "tu"}, ASKED, "anonymous"),
        _event(5, "step.started", {**ids, "status": "running"}, ASKED),
        _event(6, "turn.completed", {"turn_id": "tu"}, ASKED, "anonymous"),
        _event(7, "step.completed", {**ids, "step_id": "other", "status": "completed"}, ASKED),
        _waiting(8, "t3", ["c1"]),
    ]
    with pytest.raises(Differs):
        matched(plan, came, session)


def test_a_decision_is_judged_by_who_made_it() -> None:
    plan, session = _planned(APPROVE)
    decision = {"action": "approve", "by": "anna", "at": ASKED, "note": None, "edited_args": None, "response": None}
    data = {"interrupt_id": "c1", "action": "approve", "decision": {**decision, "reason": None}}
    made = {**_event(4, "input.completed", data, ASKED, "anna"), "via": "anonymous"}
    matched(plan, [made, _waiting(5, "t3", [])], session)
    world = World({"s": session})
    assert world.plan(APPROVE).refused is None
    refused = world.plan(orders.on_call("decision", "s", "c1", {"action": "approve"}, "ben")).refused
    assert refused
    assert refused.slug == "call-already-decided"


def test_lists_are_in_their_order() -> None:
    older, newer = folded("a", [STARTED]), folded("b", LOG)
    world = World({"a": older, "b": newer})
    assert [row["session_id"] for row in world.rows({})] == ["b", "a"]
    assert [row["session_id"] for row in world.rows({"parked": "false"})] == ["a"]
    assert [call["interrupt_id"] for call in world.inbox({"agent": "ann"})] == ["c1"]
    assert world.inbox({"status": "EXECUTED"}) == []


def test_false_is_not_0() -> None:
    assert not same({"a": False}, {"a": 0})
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})
