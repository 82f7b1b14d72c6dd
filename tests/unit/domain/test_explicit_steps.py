"""Sessions whose publisher sends its own steps."""

from __future__ import annotations

import pytest

from eventstore.domain.errors import CallNotFound, IllegalTransition, InvalidRequest
from eventstore.domain.session import to_record
from eventstore.domain.values import json_text
from tests.unit.domain.given import ANNA, Story, approve, ask, event, publish, step, turn
from tests.unit.domain.given import given as any_session


def given(*history) -> Story:
    return any_session(*history, steps="explicit")


def test_a_turn_brings_no_step():
    given().when(turn()).then("turn.started").leaves(step=None)


def test_a_step_belongs_to_the_open_turn():
    given(turn()).when(step("s1")).then(("step.started", {"step_id": "s1", "turn_id": "t1", "status": "running"}))


def test_a_step_may_stand_outside_turns():
    given().when(step("s1")).then(("step.started", {"step_id": "s1", "turn_id": None}))


def test_a_step_may_not_name_another_turn():
    given(turn("t1")).when(event("step.started", step_id="s1", turn_id="t2")).refused(IllegalTransition, index=0)


@pytest.mark.parametrize("kind", ["step.started", "step.completed", "step.interrupted"])
@pytest.mark.parametrize("name", [None, "", "x" * 201, 7])
def test_a_step_needs_a_name(kind, name):
    history = [] if kind == "step.started" else [step()]
    given(*history).when(event(kind, step_id=name)).refused(InvalidRequest, "/0/data/step_id")


def test_one_step_is_open_at_a_time():
    given(step("s1")).when(step("s2")).refused(
        IllegalTransition,
        allowed=[
            "turn.started",
            "step.completed",
            "step.interrupted",
            "authorization.required",
            "input.requested",
            "session.completed",
            "session.failed",
            "*",
        ],
    )


@pytest.mark.parametrize("kind", ["step.completed", "step.interrupted"])
def test_a_steps_end_names_the_open_one(kind):
    status = kind.removeprefix("step.")
    given(step("s1")).when(event(kind, step_id="s1")).then((kind, {"step_id": "s1", "status": status})).leaves(
        step=None
    )
    given(step("s1")).when(event(kind, step_id="s2")).refused(IllegalTransition, index=0)
    given().when(event(kind, step_id="s1")).refused(IllegalTransition, index=0)


def test_a_publishers_own_words_about_a_step_are_kept():
    given(step("s1")).when(event("step.interrupted", step_id="s1", interrupt_kind="approval", why="tools")).then(
        ("step.interrupted", {"interrupt_kind": "approval", "why": "tools"})
    )


def test_asking_does_not_interrupt_a_step_by_itself():
    given(turn(), step("s1")).when(ask()).then("input.requested", "session.waiting").leaves(step=("s1", "running"))


def test_an_interrupted_step_whose_call_waits_may_resume():
    story = given(turn(), step("s1"), ask(), event("step.interrupted", step_id="s1"))
    story.leaves(step=("s1", "interrupted"))
    story.when(approve(), by=ANNA).then("input.completed").leaves(step=("s1", "running"))


def test_an_interrupted_step_that_may_resume_counts_as_open():
    given(turn(), step("s1"), ask(), event("step.interrupted", step_id="s1")).when(step("s2")).refused(
        IllegalTransition
    )


def test_an_interrupted_step_without_a_waiting_call_is_over():
    given(step("s1"), event("step.interrupted", step_id="s1")).when(step("s2")).then("step.started")


@pytest.mark.parametrize("ending", ["turn.completed", "turn.failed", "turn.cancelled"])
@pytest.mark.parametrize("outside", [False, True])
def test_any_turns_end_interrupts_the_open_step_for_good(ending, outside):
    history = [step("s1"), turn()] if outside else [turn(), step("s1")]
    given(*history, ask()).when(event(ending)).then(
        ending,
        ("step.interrupted", {"step_id": "s1", "interrupt_kind": "unknown"}),
        *([] if ending == "turn.completed" else ["input.completed"]),
        "session.waiting",
    ).leaves(step=None, turn=None)


@pytest.mark.parametrize("ending", ["turn.completed", "turn.failed"])
@pytest.mark.parametrize("outside", [False, True])
def test_a_turns_end_does_not_interrupt_a_step_twice(ending, outside):
    history = [step("s1"), turn()] if outside else [turn(), step("s1")]
    given(*history, ask(), event("step.interrupted", step_id="s1")).when(event(ending)).then(
        ending, *([] if ending == "turn.completed" else ["input.completed"]), "session.waiting"
    ).leaves(step=None)


def test_several_steps_fit_in_one_turn():
    given(turn()).when(
        publish(step("s1"), event("step.completed", step_id="s1"), step("s2"), event("step.completed", step_id="s2"))
    ).then("step.started", "step.completed", "step.started", "step.completed").leaves(turn="t1", step=None)


def test_a_sessions_end_interrupts_the_open_step_first():
    given(turn(), step("s1"), ask()).when(event("session.completed")).then(
        ("step.interrupted", {"step_id": "s1", "turn_id": "t1", "interrupt_kind": "unknown"}),
        ("input.completed", {"action": "cancel"}),
        "session.completed",
    )


def test_a_sessions_end_does_not_interrupt_a_step_twice():
    given(turn(), step("s1"), ask(), event("step.interrupted", step_id="s1")).when(event("session.failed")).then(
        "input.completed", "session.failed"
    ).leaves(step=None, turn=None, status="failed")


@pytest.mark.parametrize("spelled", ["step_id", "stepId"])
def test_a_completed_step_is_never_reopened(spelled):
    story = given(step("s1"), event("step.completed", step_id="s1"), step("s2"), event("step.completed", step_id="s2"))
    for name in ("s1", "s2"):
        story.when(event("step.started", **{spelled: name})).refused(IllegalTransition, index=0, state="running")
    assert "never reopened" in str(story.error)
    assert story.loads == [["/s2"]], "found in one reading"
    story.when(step("s3")).then("step.started")


def test_not_even_in_the_batch_that_completed_it():
    again = publish(step("s1"), event("step.completed", step_id="s1"), step("s1"))
    given().when(again).refused(IllegalTransition, index=2)


def test_a_step_that_was_interrupted_may_be_started_again():
    """Only a completed one is over for good."""
    given(step("s1"), event("step.interrupted", step_id="s1")).when(step("s1")).then("step.started")


def test_what_is_over_does_not_burden_the_head():
    story = given()
    sizes = list[int]()
    for n in range(50):
        story.has(step(f"s{n:03}")).has(event("step.completed", step_id=f"s{n:03}"))
        sizes.append(len(json_text.dumps(to_record(story.session))))
    assert len(set(sizes[10:])) == 1


def test_a_step_is_no_call_however_it_is_named():
    story = given(step("s1"), event("step.completed", step_id="s1"))
    story.when(event("action.result", interrupt_id="/s1", result=1)).then("action.result")
    story.when(approve("/s1")).refused(CallNotFound)
