"""Deadlines: judged by one clock, in their order, each once."""

from __future__ import annotations

from eventstore.domain.errors import CallExpired
from eventstore.domain.rules.expiry import EXPIRED_AT_ONCE
from eventstore.domain.values import timestamps
from tests.unit.domain.given import (
    ANNA,
    DAY,
    HOUR,
    NOON,
    approve,
    ask,
    claim,
    connect,
    event,
    given,
    publish,
    question,
    turn,
)


def test_nothing_is_due_before_its_time():
    given(ask(expires_in_ms=HOUR)).pass_due(NOON + HOUR - 1).then()


def test_a_call_expires_exactly_at_its_deadline():
    story = given(ask(expires_in_ms=HOUR)).pass_due(NOON + HOUR)
    story.then(
        ("input.expired", {"interrupt_id": "c1", "kind": "approval", "expires_at": timestamps.text(NOON + HOUR)}),
        ("session.waiting", {"parked": False, "reason": "idle"}),
    )
    assert story.events[0].by == "layby"
    assert (story.call().status, story.call().decision) == ("EXPIRED", None)


def test_a_call_expires_once():
    given(ask()).pass_due(NOON + DAY).pass_due(NOON + 2 * DAY).then()


def test_a_decided_call_does_not_expire():
    given(ask(), approve()).pass_due(NOON + 2 * DAY).then()


def test_calls_of_every_kind_expire_in_the_order_of_their_deadlines():
    story = given(ask("late", expires_in_ms=3), question("first", expires_in_ms=1), connect("second", expires_in_ms=2))
    story.pass_due(NOON + 3).then(
        ("input.expired", {"interrupt_id": "first", "kind": "question"}),
        ("input.expired", {"interrupt_id": "second", "kind": "authorization"}),
        ("input.expired", {"interrupt_id": "late", "kind": "approval"}),
        "session.waiting",
    )


def test_calls_not_yet_due_stay_open():
    given(ask("c1", expires_in_ms=1), ask("c2")).pass_due(NOON + 1).then("input.expired").leaves(
        waiting=["c2"], status="waiting", parked=True
    )


def test_an_expiry_resumes_an_open_turn():
    given(turn(), ask()).pass_due(NOON + DAY).then("input.expired").leaves(status="running", step=("step_2", "running"))


def test_many_expire_in_rounds_with_one_word_at_the_end():
    many = EXPIRED_AT_ONCE + 1
    story = given(publish(*(ask(f"c{number}", expires_in_ms=1 + number) for number in range(many))))
    story.pass_due(NOON + DAY).then(*["input.expired"] * EXPIRED_AT_ONCE)
    assert story.loads == [[f"c{number}" for number in range(EXPIRED_AT_ONCE)]]
    story.pass_due(NOON + DAY).then("input.expired", ("session.waiting", {"reason": "idle"}))


def test_no_command_comes_before_the_last_round():
    many = EXPIRED_AT_ONCE + 1
    story = given(publish(*(ask(f"c{number}", expires_in_ms=1 + number) for number in range(many))))
    story.when(approve(f"c{EXPIRED_AT_ONCE}"), by=ANNA, at=NOON + DAY).refused(CallExpired, leaving=("input.refused",))


def test_deadlines_come_before_leases():
    story = given(ask("c1"), approve("c1"), claim("c1", lease_ms=1_000), ask("c2", expires_in_ms=2_000))
    story.pass_due(NOON + 2_000).then(
        ("input.expired", {"interrupt_id": "c2"}), "session.waiting", ("action.lapsed", {"interrupt_id": "c1"})
    )


def test_the_session_knows_what_falls_due_next():
    story = given()
    assert story.session.next_due is None
    story.has(ask("c1", expires_in_ms=HOUR)).has(ask("c2", expires_in_ms=9))
    assert story.session.next_due == NOON + 9
    story.has(approve("c2")).has(claim("c2", lease_ms=1_000))
    assert story.session.next_due == NOON + 1_000


def test_an_ended_session_has_no_deadlines_left():
    assert given(ask(), event("session.failed")).session.next_due is None
