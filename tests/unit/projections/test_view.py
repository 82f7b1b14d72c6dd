"""What a session looks like to readers: a fold over its events, whatever is stored in between."""

from __future__ import annotations

from typing import Any

import pytest

from eventstore.domain.commands import RecordResult
from eventstore.domain.events import parse_line
from eventstore.domain.values import json_text
from projections.fold.session_view import SHOWN, call_from_shown, empty_view, from_record, to_record
from projections.queries.snapshots import Stored
from tests.unit.domain.given import (
    HOUR,
    NOON,
    Story,
    approve,
    ask,
    claim,
    connect,
    event,
    given,
    publish,
    question,
    reject,
    respond,
    step,
    turn,
)


def shown(story: Story, *, up_to: int | None = None) -> dict[str, Any]:
    """The snapshot of a story, as of a seq."""
    stored = Stored(empty_view("s1"))
    stored.fold(story.lines[:up_to])
    return json_text.read(stored.encode())


def steps(story: Story) -> list[tuple[str, Any, Any]]:
    return [(one["status"], one["interrupt_kind"], one["interrupt_id"]) for one in shown(story)["steps"]]


def names(story: Story) -> list[str]:
    return [call["interrupt_id"] for call in shown(story)["calls"]]


def test_a_snapshot_has_exactly_the_members_of_the_protocol_in_its_order():
    snapshot = shown(given(turn(), ask()))
    assert list(snapshot) == [
        "session_id", "agent", "thread_id", "run_id", "status", "parked", "seq", "created_at", "updated_at",
        "continuation_token", "turn", "steps", "steps_total", "calls", "calls_total", "metadata",
    ]  # fmt: skip
    assert list(snapshot["steps"][0]) == [
        "step_id", "turn_id", "status", "started_at", "completed_at", "interrupt_kind", "interrupt_id"
    ]  # fmt: skip
    assert snapshot["turn"] == {"turn_id": "t1", "started_at": "2026-11-29T12:00:00.000Z"}
    assert (snapshot["status"], snapshot["parked"], snapshot["steps_total"], snapshot["calls_total"]) == (
        "waiting", True, 1, 1,
    )  # fmt: skip


def test_a_step_completes_with_its_turn():
    story = given(turn()).at(NOON + 5).has(event("turn.completed"))
    assert steps(story) == [("completed", None, None)]
    assert shown(story)["steps"][0]["completed_at"] == "2026-11-29T12:00:00.005Z"


def test_a_call_interrupts_the_step_of_its_turn_until_the_last_one_is_decided():
    story = given(turn(), ask("c1"), connect("a1"))
    assert steps(story) == [("interrupted", "authorization", "a1")]
    assert steps(story.has(approve("c1"))) == [("interrupted", "authorization", "a1")]
    assert steps(story.at(NOON + HOUR * 24).pass_due(NOON + HOUR * 24)) == [("running", None, None)]
    assert steps(story.has(event("turn.completed"))) == [("completed", None, None)]


@pytest.mark.parametrize("end", ["session.completed", "session.failed"])
def test_an_interrupted_step_that_a_sessions_end_retires_stays_interrupted(end: str):
    story = given(turn(), ask("c1"), ask("c2"), event(end))
    assert steps(story) == [("interrupted", "approval", "c2")]
    assert shown(story)["status"] == end.removeprefix("session.")


@pytest.mark.parametrize("end", ["turn.failed", "turn.cancelled"])
def test_a_step_whose_turn_fails_is_interrupted_for_a_reason_unknown(end: str):
    assert steps(given(turn(), ask(), event(end))) == [("interrupted", "unknown", None)]
    assert steps(given(turn(), event(end))) == [("interrupted", "unknown", None)]


def test_a_step_whose_turn_completes_while_its_call_waits_is_never_taken_up_again():
    story = given(turn(), ask("c1"), event("turn.completed"))
    assert steps(story.has(turn("t2"))) == [("interrupted", "approval", "c1"), ("running", None, None)]
    assert steps(story.has(approve("c1"))) == [("interrupted", "approval", "c1"), ("running", None, None)]


def test_an_explicit_step_resumes_and_a_completed_one_is_never_reopened():
    waiting = event("step.interrupted", step_id="s1", interrupt_kind="approval", interrupt_id="c1")
    story = given(turn(), step("s1"), ask("c1"), waiting, steps="explicit")
    assert steps(story) == [("interrupted", "approval", "c1")]
    assert steps(story.has(approve("c1"))) == [("running", None, None)]
    assert steps(story.has(ask("c2")).has(event("step.completed", step_id="s1"))) == [("completed", None, None)]
    assert steps(story.has(reject("c2"))) == [("completed", None, None)]


def test_an_explicit_step_interrupted_by_a_sessions_end_stays_so_when_its_calls_are_retired():
    story = given(turn(), step("s1"), ask("c1"), ask("c2"), event("session.failed"), steps="explicit")
    assert steps(story) == [("interrupted", "unknown", None)]


def test_only_the_newest_hundred_steps_are_shown():
    story = given(*[new for n in range(SHOWN + 7) for new in (turn(f"t{n}"), event("turn.completed"))])
    snapshot = shown(story)
    assert [one["turn_id"] for one in snapshot["steps"]] == [f"t{n}" for n in range(7, SHOWN + 7)]
    assert snapshot["steps_total"] == SHOWN + 7


def test_all_open_calls_and_the_newest_hundred_others_are_shown_in_the_order_they_began():
    story = given()
    for n in range(SHOWN + 20):
        story.has(ask(f"c{n}"))
        if n not in (3, 5, 60, SHOWN + 10):
            story.has(reject(f"c{n}"))
    everything = [f"c{n}" for n in range(SHOWN + 20)]
    gone = [name for name in everything[:18] if name not in ("c3", "c5")]
    assert names(story) == [name for name in everything if name not in gone]
    assert names(story.has(reject("c5"))) == [name for name in everything if name not in (*gone, "c5")]
    assert names(story.has(reject("c60"))) == [name for name in everything if name not in (*gone, "c5", "c18")]
    assert shown(story)["calls_total"] == SHOWN + 20


def _rich(kind: str) -> Story:
    story = given(turn(), steps=kind)
    if kind == "explicit":
        story.has(step("s1"))
    story.has(publish(ask("c1", allow_edits=True), question("q1"), connect("a1", expires_in_ms=50), ask("c2")))
    story.has(approve("c1", edited_args={"amount": 2**70, "text": "\u2028 é"})).has(respond(False))
    story.at(NOON + 60).has(claim(lease_ms=40)).at(NOON + 200).pass_due(NOON + 200)
    story.has(RecordResult("c1", [1.0, {"b": None}], 1)).has(event("x.y", list=[]))
    story.has(event("turn.failed", why="…")).has(turn("t2"))
    return story.has(event("session.completed"))


@pytest.mark.parametrize("kind", ["turn", "explicit"])
def test_it_does_not_matter_at_which_event_the_view_was_stored(kind: str):
    story = _rich(kind)
    whole = shown(story)
    for cut in range(1, len(story.lines)):
        stored = Stored(empty_view("s1"))
        stored.fold(story.lines[:cut])
        assert json_text.read(stored.encode()) == shown(story, up_to=cut)
        view = stored.view
        stored.view = from_record("s1", view.seq, json_text.read(json_text.dumps(to_record(view))))
        stored.fold(story.lines[cut:])
        assert json_text.read(stored.encode()) == whole


def test_a_call_is_read_from_how_it_is_shown():
    story = _rich("turn")
    for call in shown(story)["calls"]:
        read = call_from_shown(call)
        known = story.call(call["interrupt_id"])
        for name in ("status", "decision", "result", "is_error", "expires_at", "updated_at", "kind", "tool_args"):
            assert getattr(read, name) == getattr(known, name)


def test_an_ungoverned_result_changes_no_call_asked_later():
    story = given(event("action.result", interrupt_id="c1", result=1), event("action.result", interrupt_id=["c1"]))
    assert shown(story)["calls"] == []
    assert shown(story.has(ask("c1")))["calls"][0]["status"] == "PENDING_APPROVAL"


def test_every_event_of_a_story_can_be_folded_one_by_one():
    story = _rich("turn")
    stored = Stored(empty_view("s1"))
    for line in story.lines:
        stored.fold([line])
        assert stored.view.seq == parse_line(line).seq
    assert json_text.read(stored.encode()) == shown(story)
