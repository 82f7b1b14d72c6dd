"""When a session waits, for what, and with which token."""

from __future__ import annotations

from eventstore.domain.commands import CompleteAuthorization, SendMessage
from eventstore.domain.errors import TooManyCalls
from eventstore.domain.rules.publishing import MOST_OPEN
from tests.unit.domain.given import ANNA, HOUR, NOON, approve, ask, connect, event, given, publish, reject, step, turn


def test_each_call_that_starts_to_wait_says_so():
    given(ask("c1")).when(publish(ask("c2"), ask("c3"))).then(
        "input.requested",
        ("session.waiting", {"parked": True, "reason": "parked", "pending_interrupt_ids": ["c1", "c2"]}),
        "input.requested",
        ("session.waiting", {"pending_interrupt_ids": ["c1", "c2", "c3"]}),
    )


def test_pending_calls_stand_in_the_order_they_were_asked():
    story = given(ask("z"), ask("m"), ask("a"))
    story.has(approve("m"), by=ANNA).when(ask("b"))
    assert story.events[-1].data["pending_interrupt_ids"] == ["z", "a", "b"]


def test_every_waiting_carries_a_new_token():
    story = given(turn())
    seen = {story.session.token}
    for new in (ask("c1"), ask("c2"), event("turn.completed"), turn("t2"), event("turn.completed")):
        story.has(new)
        if story.events[-1].type == "session.waiting":
            assert story.events[-1].data["continuation_token"] not in seen
            assert story.session.token == story.events[-1].data["continuation_token"]
            seen.add(story.session.token)
    assert len(seen) == 5


def test_a_decision_leaves_the_token_as_it_is_unless_the_session_falls_idle():
    story = given(ask("c1"), ask("c2"))
    token = story.session.token
    story.when(approve("c1"), by=ANNA).leaves(token=token)
    story.when(approve("c2"), by=ANNA)
    assert story.session.token != token


def test_the_last_decision_without_a_turn_makes_the_session_idle():
    given(ask()).when(reject(), by=ANNA).then(
        "input.completed", ("session.waiting", {"parked": False, "reason": "idle", "pending_interrupt_ids": []})
    ).leaves(status="waiting", parked=False)


def test_the_last_decision_in_an_open_turn_makes_it_run_without_another_word():
    given(turn(), ask()).when(reject(), by=ANNA).then("input.completed").leaves(status="running", parked=False)


def test_an_earlier_decision_leaves_it_parked():
    given(ask("c1"), connect("a1")).when(approve("c1"), by=ANNA).then("input.completed").leaves(
        status="waiting", parked=True, waiting=["a1"]
    )


def test_a_completed_authorization_counts_as_a_decision():
    given(connect("a1")).when(CompleteAuthorization("a1", True), by=ANNA).then(
        "authorization.completed", ("session.waiting", {"reason": "idle"})
    )


def test_an_expiry_counts_as_a_decision():
    given(ask(expires_in_ms=HOUR)).pass_due(NOON + HOUR).then("input.expired", ("session.waiting", {"reason": "idle"}))
    given(turn(), ask(expires_in_ms=HOUR)).pass_due(NOON + HOUR).then("input.expired").leaves(status="running")


def test_a_created_session_runs():
    given().leaves(status="running", parked=False)


def test_an_idle_session_runs_again_when_a_turn_starts():
    given(turn(), event("turn.completed")).leaves(status="waiting").when(turn("t2")).leaves(status="running")


def test_an_idle_session_runs_again_when_a_message_comes():
    story = given(turn(), event("turn.completed"))
    story.when(SendMessage(story.session.token, "go on"), by=ANNA).leaves(status="running")


def test_other_events_leave_an_idle_session_idle():
    given(turn(), event("turn.completed")).when(event("message.appended")).leaves(status="waiting", parked=False)


def test_nothing_that_arrives_unparks_a_session_while_a_call_waits():
    story = given(turn(), ask(), steps="explicit")
    story.when(SendMessage(story.session.token, "hello?"), by=ANNA).leaves(status="waiting", parked=True)
    for new in (step(), event("message.appended"), event("turn.completed"), turn("t2")):
        story.when(new).leaves(status="waiting", parked=True)


def test_a_session_has_only_so_many_calls_open_at_once():
    story = given()
    story.has(publish(*(ask(f"c{n}") for n in range(MOST_OPEN))))
    story.when(publish(ask("c0"), ask("more"))).refused(TooManyCalls, index=1)
    story.when(ask("c0")).answers(duplicate=True)
    story.has(approve("c0"))
    story.when(ask("more")).then("input.requested", "session.waiting")
