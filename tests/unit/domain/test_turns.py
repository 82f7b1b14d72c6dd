"""Turns, and the steps that come with them when one step is one turn."""

from __future__ import annotations

import pytest

from eventstore.domain.errors import IllegalTransition, InvalidRequest
from tests.unit.domain.given import ANNA, approve, ask, connect, event, given, publish, question, turn


def test_a_turn_brings_its_step():
    given().when(event("turn.started", turn_id="t1", goal="refund")).then(
        ("turn.started", {"turn_id": "t1", "goal": "refund"}),
        ("step.started", {"step_id": "step_2", "turn_id": "t1", "status": "running"}),
    ).leaves(status="running", turn="t1", step=("step_2", "running"))


def test_derived_events_are_written_by_layby():
    story = given().when(turn())
    assert [happened.by for happened in story.events] == ["svc-agent", "layby"]


@pytest.mark.parametrize("data", [{}, {"turn_id": None}])
def test_a_turn_without_a_name_gets_one(data):
    given().when(event("turn.started", **data)).then(("turn.started", {"turn_id": "turn_2"}), "step.started")


def test_a_turn_completes_with_its_step():
    given(turn()).when(event("turn.completed")).then(
        ("turn.completed", {"turn_id": "t1"}),
        ("step.completed", {"step_id": "step_2", "turn_id": "t1", "status": "completed"}),
        ("session.waiting", {"parked": False, "reason": "idle", "pending_interrupt_ids": []}),
    ).leaves(status="waiting", parked=False, turn=None, step=None)


@pytest.mark.parametrize("ending", ["turn.failed", "turn.cancelled"])
def test_a_broken_off_turn_interrupts_its_step(ending):
    given(turn()).when(event(ending, error="boom")).then(
        (ending, {"turn_id": "t1", "error": "boom"}),
        ("step.interrupted", {"step_id": "step_2", "status": "interrupted", "interrupt_kind": "unknown"}),
        ("session.waiting", {"reason": "idle"}),
    ).leaves(turn=None, step=None)


@pytest.mark.parametrize(
    ("request_", "kind"), [(ask("x"), "approval"), (question("x"), "approval"), (connect("x"), "authorization")]
)
def test_asking_inside_a_turn_interrupts_its_step(request_, kind):
    given(turn()).when(request_).then(
        request_.type,
        ("step.interrupted", {"step_id": "step_2", "interrupt_kind": kind, "interrupt_id": "x"}),
        ("session.waiting", {"parked": True, "reason": "parked", "pending_interrupt_ids": ["x"]}),
    ).leaves(status="waiting", parked=True, turn="t1", step=("step_2", "interrupted"))


def test_asking_outside_a_turn_only_parks():
    given().when(ask()).then("input.requested", "session.waiting").leaves(status="waiting", step=None)


def test_the_last_decision_resumes_the_step_and_the_turn():
    given(turn(), ask()).when(approve(), by=ANNA).then("input.completed").leaves(
        status="running", parked=False, step=("step_2", "running")
    )


def test_a_step_waits_for_all_of_its_calls():
    given(turn(), ask("c1"), ask("c2")).when(approve("c1"), by=ANNA).then("input.completed").leaves(
        status="waiting", waiting=["c2"], step=("step_2", "interrupted")
    )


def test_a_resumed_step_completes_with_its_turn():
    given(turn(), ask(), approve()).when(event("turn.completed")).then(
        "turn.completed", ("step.completed", {"step_id": "step_2"}), "session.waiting"
    )


def test_a_turn_that_completes_while_a_call_waits_leaves_its_step_interrupted():
    given(turn(), ask()).when(event("turn.completed")).then(
        "turn.completed", ("session.waiting", {"parked": True, "pending_interrupt_ids": ["c1"]})
    ).leaves(status="waiting", turn=None, step=None, waiting=["c1"])


def test_the_turn_that_takes_the_work_up_again_has_a_step_of_its_own():
    given(turn("t1"), ask(), event("turn.completed")).when(turn("t2")).then(
        "turn.started", ("step.started", {"turn_id": "t2"})
    ).leaves(status="waiting", parked=True, turn="t2", step=("step_5", "running"))


def test_an_older_turns_call_does_not_touch_the_step_of_the_open_one():
    given(turn("t1"), ask(), event("turn.completed"), turn("t2")).when(approve(), by=ANNA).then(
        "input.completed"
    ).leaves(status="running", step=("step_5", "running"))


@pytest.mark.parametrize("ending", ["turn.failed", "turn.cancelled"])
def test_a_broken_off_turn_retires_its_calls_after_its_step(ending):
    cancel = {"action": "cancel", "by": "layby", "reason": "turn_ended"}
    story = given(turn(), ask("c1"), connect("a1")).when(event(ending))
    story.then(
        ending,
        ("step.interrupted", {"interrupt_kind": "unknown"}),
        ("input.completed", {"interrupt_id": "c1", "action": "cancel"}),
        ("authorization.completed", {"interrupt_id": "a1", "success": False}),
        ("session.waiting", {"parked": False, "reason": "idle"}),
    )
    for name in ("c1", "a1"):
        assert story.call(name).status == "REJECTED"
        assert cancel.items() <= (story.call(name).decision or {}).items()


def test_a_broken_off_turn_leaves_the_calls_of_other_turns_open():
    given(turn("t1"), ask("c1"), event("turn.completed"), turn("t2"), ask("c2")).when(event("turn.failed")).then(
        "turn.failed",
        "step.interrupted",
        ("input.completed", {"interrupt_id": "c2"}),
        ("session.waiting", {"parked": True, "pending_interrupt_ids": ["c1"]}),
    )


def test_a_call_asked_outside_turns_outlives_them():
    given(ask("c1"), turn()).when(event("turn.cancelled")).then(
        "turn.cancelled", "step.interrupted", ("session.waiting", {"pending_interrupt_ids": ["c1"]})
    )


def test_no_turn_starts_while_one_is_open():
    given(turn("t1")).when(turn("t2")).refused(IllegalTransition, index=0, state="running")


@pytest.mark.parametrize("ending", ["turn.completed", "turn.failed", "turn.cancelled"])
def test_no_turn_ends_that_is_not_open(ending):
    given().when(event(ending)).refused(IllegalTransition, index=0, state="running")


def test_a_turns_end_names_the_open_turn_or_none():
    given(turn("t1")).when(event("turn.completed", turn_id="t1")).then(
        "turn.completed", "step.completed", "session.waiting"
    )
    given(turn("t1")).when(event("turn.completed", turn_id="t2")).refused(IllegalTransition, index=0)


@pytest.mark.parametrize("name", ["", "x" * 201, 7, ["t1"]])
def test_a_turn_id_is_1_to_200_characters(name):
    given().when(event("turn.started", turn_id=name)).refused(InvalidRequest, "/0/data/turn_id")


def test_a_refused_batch_says_which_event_and_what_could_come():
    given().when(publish(turn("t1"), event("message.appended"), turn("t2"))).refused(
        IllegalTransition,
        index=2,
        state="running",
        allowed=[
            "turn.cancelled",
            "turn.completed",
            "turn.failed",
            "authorization.required",
            "input.requested",
            "session.completed",
            "session.failed",
            "*",
        ],
    )


def test_a_batch_is_judged_event_by_event():
    given().when(publish(turn("t1"), event("turn.completed"), turn("t2"))).then(
        "turn.started",
        "step.started",
        "turn.completed",
        "step.completed",
        "session.waiting",
        "turn.started",
        "step.started",
    ).answers(first_seq=2, last_seq=8, duplicate=False)
