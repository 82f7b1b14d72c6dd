"""One decision a call: the checks in their order, duplicates, late attempts."""

from __future__ import annotations

import pytest

from eventstore.domain.commands import Actor, DecideCall, ExpireDue
from eventstore.domain.errors import (
    CallAlreadyDecided,
    CallExpired,
    CallNotFound,
    InvalidRequest,
    InvalidSnapshot,
    RunMismatch,
    StaleView,
)
from eventstore.domain.values import json_text, timestamps
from tests.unit.domain.given import (
    ANNA,
    DAY,
    HOUR,
    NOON,
    approve,
    ask,
    connect,
    event,
    given,
    question,
    reject,
    respond,
)

BEN = Actor("ben")
LATE = NOON + DAY
STALE = "sha256:" + "0" * 64


# What a decision does


def test_an_approval_hands_the_call_out():
    story = given(ask()).when(approve(note="fine"), by=ANNA)
    decision = {
        "action": "approve",
        "by": "anna",
        "at": timestamps.text(NOON),
        "note": "fine",
        "edited_args": None,
        "response": None,
        "reason": None,
    }
    story.then(
        ("input.completed", {"interrupt_id": "c1", "action": "approve", "decision": decision}), "session.waiting"
    ).answers(outcome="applied", seq=4)
    call = story.result["call"]
    assert (call["status"], call["decision"]) == ("APPROVED_EXECUTING", decision)
    assert call["execution"] == {"state": "unclaimed", "attempt": 0, "owner": None, "lease_until": None}


def test_a_rejection_closes_the_call():
    story = given(ask()).when(reject(), by=ANNA)
    assert (story.call().status, story.call().execution) == ("REJECTED", None)


@pytest.mark.parametrize("answer", [None, False, 0, "", [], {}, {"a": [1.5, True]}, "yes"])
def test_an_answer_is_the_result(answer):
    story = (
        given(question())
        .when(respond(answer), by=ANNA)
        .then(("input.completed", {"action": "respond"}), "session.waiting")
    )
    call = story.call("q1")
    assert (call.status, call.result, call.execution) == ("EXECUTED", answer, None)
    assert call.decision is not None
    assert call.decision["response"] == answer


def test_edits_replace_the_arguments_and_an_empty_object_is_an_edit():
    story = given(ask(allow_edits=True)).when(approve(edited_args={}), by=ANNA)
    assert story.call().decision == {**(story.call().decision or {}), "edited_args": {}}


def test_the_person_behind_a_console_is_the_decider():
    story = given(ask()).when(approve(), by=Actor("anna", "console"))
    assert (story.events[0].by, story.events[0].via, story.events[1].via) == ("anna", "console", None)
    assert (story.call().decision or {})["by"] == "anna"


def test_the_deadline_never_moves():
    story = given(ask(expires_in_ms=HOUR)).at(NOON + 1).has(approve(), by=ANNA)
    assert story.call().expires_at == NOON + HOUR


# The checks, one by one


@pytest.mark.parametrize(
    ("command", "pointer"),
    [
        (DecideCall("c1", "Approve"), "/action"),
        (DecideCall("c1", "cancel"), "/action"),
        (reject(edited_args={"amount": 1}), "/edited_args"),
        (DecideCall("c1", "respond"), "/response"),
        (approve(response=1), "/response"),
        (approve(response=None), "/response"),
        (reject(response="no"), "/response"),
    ],
)
def test_1_a_malformed_decision_is_refused(command, pointer):
    given(ask(options=["approve", "reject", "respond"], allow_edits=True)).when(command).refused(
        InvalidRequest, pointer
    )


def test_2_only_a_call_can_be_decided_and_no_authorization():
    given(connect("a1")).when(approve("c1")).refused(CallNotFound)
    given(connect("a1")).when(approve("a1")).refused(CallNotFound)


def test_3_a_broken_call_is_not_decided():
    given(ask()).damaged().when(approve()).refused(InvalidSnapshot)


@pytest.mark.parametrize(
    ("asked", "command", "pointer"),
    [
        ({"options": ["approve"]}, reject(), "/action"),
        ({}, respond("x", "c1"), "/action"),
        ({"options": ["respond"]}, approve(), "/action"),
        ({}, approve(edited_args={"amount": 1}), "/edited_args"),
        ({"allow_edits": True}, approve(edited_args=[1]), "/edited_args"),
        ({"allow_edits": True}, approve(edited_args=False), "/edited_args"),
        ({"options": ["respond"], "response_schema": {"type": "string"}}, respond(7, "c1"), "/response"),
        ({"options": ["respond"], "response_schema": {"required": ["a"]}}, respond({}, "c1"), "/response/a"),
        ({"options": ["respond"], "response_schema": False}, respond(None, "c1"), "/response"),
        (
            {"options": ["respond"], "response_schema": {"properties": {"a/b": {"items": {"type": "null"}}}}},
            respond({"a/b": [None, 1]}, "c1"),
            "/response/a~1b/1",
        ),
    ],
)
def test_4_a_decision_keeps_to_what_was_offered(asked, command, pointer):
    given(ask(**asked)).when(command).refused(InvalidRequest, pointer).leaves(waiting=["c1"])


@pytest.mark.parametrize("other", [{"run_id": "r2"}, {"thread_id": "t2"}, {"run_id": ""}])
def test_5_a_decision_meant_for_another_run_is_refused(other):
    given(ask()).when(approve(**other)).refused(RunMismatch)
    given(ask()).when(approve(run_id="run-1", thread_id="s1")).then("input.completed", "session.waiting")


def test_6_the_second_one_hears_how_it_was_decided():
    story = given(ask()).has(approve(), by=ANNA).when(reject(), by=BEN)
    story.refused(CallAlreadyDecided)
    assert story.error is not None
    assert story.error.members["call"]["decision"]["by"] == "anna"


def test_7_at_the_deadline_it_is_too_late():
    given(ask()).when(approve(), by=ANNA, at=LATE - 1).then("input.completed", "session.waiting")
    story = given(ask()).when(approve(), by=ANNA, at=LATE)
    story.refused(CallExpired, leaving=("input.refused",))
    assert story.error is not None
    assert story.error.members["call"]["status"] == "EXPIRED"


def test_8_a_decision_on_other_arguments_is_refused_and_leaves_the_call_open():
    story = given(ask()).when(approve(args_digest=STALE)).refused(StaleView).leaves(waiting=["c1"])
    story.when(approve(args_digest=story.call().args_digest), by=ANNA).then("input.completed", "session.waiting")


# Their order: of two faults, the earlier check is the one that is heard

FAULTS = {
    1: {"edited_args": {}, "action": "reject"},
    4: {"action": "respond", "response": 7},
    5: {"run_id": "r2"},
    8: {"args_digest": STALE},
}
REFUSALS = {
    1: InvalidRequest,
    2: CallNotFound,
    3: InvalidSnapshot,
    4: InvalidRequest,
    5: RunMismatch,
    6: CallAlreadyDecided,
    7: CallExpired,
    8: StaleView,
}


@pytest.mark.parametrize(
    ("first", "second"), [(a, b) for a in range(1, 9) for b in range(a + 1, 9) if (a, b) != (6, 7)]
)
def test_the_earlier_fault_is_heard(first, second):
    faults = {first, second}
    story = given(question("c1", options=["approve", "reject", "respond"], response_schema={"type": "string"}))
    if 6 in faults:
        story.has(reject(), by=BEN)
    if 7 in faults:
        story.at(LATE).has(ExpireDue())
    if 3 in faults:
        story.damaged()
    fields = {"action": "approve"} | FAULTS.get(second, {}) | FAULTS.get(first, {})
    if {1, 4} == faults:
        fields = {"action": "respond", "edited_args": {}, "response": 7}
    story.when(DecideCall("no-such-call" if 2 in faults else "c1", **fields), by=ANNA)
    story.refused(REFUSALS[first], *(["/edited_args"] if first == 1 else []), leaving=("input.refused",) * (first == 7))


def test_a_decided_call_is_decided_for_ever_also_past_its_deadline():
    story = given(ask()).has(approve(), by=ANNA).at(LATE + DAY)
    story.when(reject(), by=BEN).refused(CallAlreadyDecided)
    story.when(approve(), by=ANNA).then().answers(outcome="duplicate")


@pytest.mark.parametrize(
    "command", [DecideCall("c1", "wat"), respond(1, "c1"), approve(run_id="r2"), approve(args_digest=STALE)]
)
def test_a_refused_decision_does_not_consume_the_call(command):
    given(ask()).when(command, by=BEN).leaves(waiting=["c1"]).when(approve(), by=ANNA).answers(outcome="applied")


# The same again


def test_the_same_decision_again_is_a_duplicate_of_the_first():
    story = given(ask(allow_edits=True)).has(approve(edited_args={"n": 1}, note="a"), by=ANNA)
    seq = story.result["seq"]
    story.when(approve(edited_args={"n": 1.0}, note="b"), by=ANNA).then().answers(outcome="duplicate", seq=seq)
    assert story.result["call"]["decision"]["note"] == "a"


def test_a_duplicate_is_one_also_after_the_session_has_ended():
    story = given(ask()).has(approve(), by=ANNA).has(event("session.completed"))
    story.when(approve(), by=ANNA).then().answers(outcome="duplicate")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"action": "approve"}, {"action": "reject"}),
        ({"action": "approve"}, {"action": "approve", "edited_args": {}}),
        ({"action": "approve", "edited_args": {"n": 1}}, {"action": "approve"}),
        ({"action": "approve", "edited_args": {"n": 1}}, {"action": "approve", "edited_args": {"n": True}}),
        ({"action": "respond", "response": 1}, {"action": "respond", "response": True}),
        ({"action": "respond", "response": 0}, {"action": "respond", "response": False}),
        ({"action": "respond", "response": None}, {"action": "respond", "response": False}),
        ({"action": "respond", "response": ""}, {"action": "respond", "response": None}),
        ({"action": "respond", "response": "1"}, {"action": "respond", "response": 1}),
        ({"action": "respond", "response": [1, 2]}, {"action": "respond", "response": [2, 1]}),
        ({"action": "respond", "response": 2**60}, {"action": "respond", "response": 2**60 + 1}),
    ],
)
def test_another_decision_is_no_duplicate(first, second):
    history = ask(options=["approve", "reject", "respond"], allow_edits=True)
    story = given(history).has(DecideCall("c1", **first), by=ANNA)
    story.when(DecideCall("c1", **second), by=ANNA).refused(CallAlreadyDecided)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (0, -0.0),
        (1e16, 10**16),
        ({"a": 1, "b": [None]}, {"b": [None], "a": 1}),
        (json_text.LongInteger("7" * 6_000), json_text.LongInteger("7" * 6_000)),
    ],
)
def test_answers_that_are_equal_as_json_are_the_same(first, second):
    given(question()).has(respond(first), by=ANNA).when(respond(second), by=ANNA).answers(outcome="duplicate")


@pytest.mark.parametrize(
    ("first", "second"),
    [(ANNA, BEN), (ANNA, Actor("anna", "console")), (Actor("anna", "console"), Actor("anna", "other")), (BEN, ANNA)],
)
def test_another_principal_is_never_a_duplicate(first, second):
    given(ask()).has(approve(), by=first).when(approve(), by=second).refused(CallAlreadyDecided)


def test_a_retired_call_is_decided():
    for ending in ("session.completed", "session.failed"):
        given(ask(), event(ending)).when(approve(), by=ANNA).refused(CallAlreadyDecided)


# Too late


def test_an_expired_call_says_so_for_ever_and_keeps_ten_attempts():
    story = given(ask()).pass_due(LATE)
    for attempt in range(13):
        kept = ("input.refused",) if attempt < 10 else ()
        story.when(approve() if attempt % 2 else reject(), by=ANNA, at=LATE + attempt * DAY)
        story.refused(CallExpired, leaving=kept)
    assert story.call().refusals == 10


def test_a_late_attempt_is_recorded_with_who_tried_what():
    story = given(ask()).pass_due(LATE).when(reject(), by=Actor("anna", "console"))
    story.refused(CallExpired, leaving=("input.refused",))
    attempt = story.events[0]
    assert attempt.data == {"interrupt_id": "c1", "action": "reject", "reason": "expired"}
    assert (attempt.by, attempt.via) == ("anna", "console")


def test_a_late_attempt_leaves_no_trace_once_the_session_has_ended():
    given(ask()).pass_due(LATE).has(event("session.completed")).when(approve(), by=ANNA).refused(CallExpired)


def test_a_late_attempt_does_not_stir_the_session():
    given(ask()).pass_due(LATE).when(approve(), by=ANNA).leaves(status="waiting", parked=False)
