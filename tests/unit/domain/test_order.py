"""What a publisher may send, and when."""

from __future__ import annotations

import pytest

from eventstore.domain.commands import Publish
from eventstore.domain.errors import IllegalTransition, InvalidRequest, ReservedType, VersionMismatch
from eventstore.domain.events import RESERVED
from tests.unit.domain.given import (
    ANNA,
    approve,
    ask,
    claim,
    connect,
    event,
    given,
    publish,
    reject,
    step,
    turn,
)


def test_the_reserved_words_are_those_of_the_protocol():
    words = "session.started session.waiting input.completed input.expired input.refused authorization.completed"
    actions = "action.claimed action.released action.lapsed action.settled"
    assert set(RESERVED) == {*words.split(), *actions.split(), "message.received"}


@pytest.mark.parametrize("steps", ["turn", "explicit"])
@pytest.mark.parametrize("kind", sorted(RESERVED))
def test_a_reserved_word_is_refused(kind, steps):
    given(steps=steps).when(event(kind)).refused(ReservedType, index=0)


@pytest.mark.parametrize("kind", ["step.started", "step.completed", "step.interrupted"])
def test_step_words_are_reserved_where_a_step_is_a_turn(kind):
    given(turn()).when(event(kind, step_id="s1")).refused(ReservedType, index=0)


def test_a_reserved_word_spoils_its_whole_batch():
    given().when(publish(turn(), event("input.completed"))).refused(ReservedType, index=1).leaves(turn=None)


@pytest.mark.parametrize("kind", ["message.appended", "reasoning.appended", "subagent.called", "my.own_word"])
def test_any_other_type_is_stored_as_it_is(kind):
    data = {"toolName": "kept", "turn_id": None, "list": [], "nested": {"a": [1, 1.0, True, None]}}
    given().when(event(kind, **data)).then((kind, data))


def test_when_something_occurred_is_kept_beside_it():
    new = event("message.appended", text="hi")
    occurred = type(new)(new.type, new.data, "2026-11-29T13:00:00+01:00")
    assert given().when(occurred).events[0].occurred_at == "2026-11-29T13:00:00+01:00"


def test_a_result_of_a_call_that_layby_does_not_govern_is_stored():
    given(ask("c1")).when(event("action.result", interrupt_id="other", result=1)).then(
        ("action.result", {"interrupt_id": "other", "result": 1})
    )


@pytest.mark.parametrize("name", ["interrupt_id", "interruptId", "request_id", "requestId"])
@pytest.mark.parametrize("history", [[ask("c1")], [ask("c1"), reject()], [ask("c1"), approve()]])
def test_a_result_of_a_governed_call_is_reserved(name, history):
    given(*history).when(event("action.result", **{name: "c1"})).refused(ReservedType, index=0)


@pytest.mark.parametrize("odd", [7, None, ["c1"], {"a": 1}])
def test_a_result_may_hold_anything_where_no_call_is_named(odd):
    given(ask("c1"), approve(), claim()).when(event("action.result", interrupt_id=odd)).then("action.result")


def test_an_id_used_in_a_foreign_result_may_still_be_asked():
    given(event("action.result", interrupt_id="c1", result=1)).when(ask("c1")).then(
        "input.requested", "session.waiting"
    )


def test_nothing_may_follow_the_end():
    for ending in ("session.completed", "session.failed"):
        story = given(event(ending))
        for new in (event("message.appended"), turn(), ask(), event(ending)):
            state = ending.removeprefix("session.")
            story.when(new).refused(IllegalTransition, index=0, state=state, allowed=[])


def test_a_batch_may_end_the_session_only_with_its_last_event():
    given().when(publish(event("session.completed"), event("message.appended"))).refused(
        IllegalTransition, index=1, state="completed", allowed=[]
    ).leaves(status="running")


def test_a_reserved_word_is_named_so_even_after_the_end():
    given(event("session.completed")).when(event("input.completed")).refused(ReservedType, index=0)


@pytest.mark.parametrize(("ending", "status"), [("session.completed", "completed"), ("session.failed", "failed")])
def test_the_end_retires_every_open_call(ending, status):
    story = given(turn(), ask("c1"), event("turn.completed"), connect("a1"), ask("c2")).when(event(ending, why="done"))
    story.then(
        ("input.completed", {"interrupt_id": "c1", "action": "cancel"}),
        ("authorization.completed", {"interrupt_id": "a1", "success": False}),
        ("input.completed", {"interrupt_id": "c2"}),
        (ending, {"why": "done"}),
    ).leaves(status=status, parked=False, waiting=[])
    assert [happened.by for happened in story.events] == ["layby", "layby", "layby", "svc-agent"]
    decision = story.call("c2").decision or {}
    assert {"action": "cancel", "reason": "session_ended", "by": "layby"}.items() <= decision.items()
    assert story.loads == [["c1", "a1", "c2"]]


def test_the_end_interrupts_the_running_step_of_an_open_turn():
    given(turn()).when(event("session.completed")).then(
        ("step.interrupted", {"turn_id": "t1", "interrupt_kind": "unknown"}), "session.completed"
    ).leaves(turn=None, step=None)


def test_the_end_does_not_interrupt_a_parked_step_again():
    given(turn(), ask()).when(event("session.completed")).then("input.completed", "session.completed")


def test_an_expected_version_must_be_the_current_one():
    given().when(publish(turn(), expected=1)).then("turn.started", "step.started")
    given().when(publish(turn(), expected=2)).refused(VersionMismatch, current_seq=1)


def test_the_version_is_looked_at_before_the_events():
    given(turn()).when(publish(event("input.completed"), expected=9)).refused(VersionMismatch, current_seq=3)


def test_the_answer_lists_derived_events_too():
    given().when(publish(turn())).answers(
        session_id="s1",
        first_seq=2,
        last_seq=3,
        events=[{"seq": 2, "type": "turn.started"}, {"seq": 3, "type": "step.started"}],
        duplicate=False,
    )


def test_an_empty_batch_is_refused():
    given().when(Publish([])).refused(InvalidRequest, "")


def test_a_refused_batch_changes_nothing():
    story = given(ask("c1"), by_name := turn("t1"))
    seq = story.session.seq
    story.when(publish(ask("c2"), event("turn.completed"), by_name, by_name)).refused(IllegalTransition, index=3)
    assert (story.session.seq, list(story.calls)) == (seq, ["c1"])


def test_an_approved_call_may_still_be_run_after_the_end():
    given(ask(), approve(), event("session.completed")).when(claim(), by=ANNA).then("action.claimed").leaves(
        status="completed"
    )


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (event("turn.started", turnId=7), "turnId"),
        (event("step.started", stepId=7), "stepId"),
    ],
)
def test_a_fault_is_shown_where_it_was_sent(new, field):
    given(steps="explicit").when(new).refused(InvalidRequest, f"/0/data/{field}")


def test_both_spellings_at_once_are_one_too_many():
    given().when(event("turn.started", turn_id="t1", turnId="t1")).refused(InvalidRequest, "/0/data/turnId")


def test_camel_case_is_understood_in_turns_and_steps():
    given(steps="explicit").when(publish(event("turn.started", turnId="t1"), event("step.started", stepId="s1"))).then(
        ("turn.started", {"turn_id": "t1", "turnId": None}), ("step.started", {"step_id": "s1", "stepId": None})
    )
    given(step("s1"), steps="explicit").when(
        event("step.interrupted", stepId="s1", interruptKind="approval", requestId="r1")
    ).then(("step.interrupted", {"step_id": "s1", "interrupt_kind": "approval", "interrupt_id": "r1"}))
