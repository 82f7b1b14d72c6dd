"""The version 2 document: handed in by a publisher, and stored with every call."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from eventstore.domain import call as calls
from eventstore.domain import state_snapshot
from eventstore.domain.commands import ExpireDue
from eventstore.domain.draft import Context, Draft
from eventstore.domain.errors import InvalidRequest, InvalidSnapshot, NotApproved
from eventstore.domain.session import Session
from eventstore.domain.values import timestamps
from tests.unit.domain.given import (
    ANNA,
    HOUR,
    NOON,
    approve,
    ask,
    claim,
    connect,
    event,
    given,
    question,
    reject,
    respond,
)

DOCUMENT: dict[str, Any] = {
    "version": 2,
    "pending_tool_call": {
        "interrupt_id": "c1",
        "tool_name": "refund",
        "tool_args": {"amount": 100},
        "status": "PENDING_APPROVAL",
        "expires_at": timestamps.text(NOON + HOUR),
        "decision": None,
        "result": None,
        "updated_at": timestamps.text(NOON),
    },
    "run_context": {"thread_id": "t9", "run_id": "r9"},
}


def with_(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    *parents, name = path.split("/")
    place = document
    for parent in parents:
        place = place[parent]
    place[name] = value
    return document


def without(path: str) -> dict[str, Any]:
    document = with_(path, None)
    *parents, name = path.split("/")
    place = document
    for parent in parents:
        place = place[parent]
    del place[name]
    return document


def paths(document: dict[str, Any], *above: str) -> list[str]:
    inner = ("pending_tool_call", "run_context")
    return [
        path
        for name, value in document.items()
        for path in ["/".join([*above, name]), *(paths(value, name) if name in inner else [])]
    ]


@pytest.mark.parametrize("name", ["state_snapshot", "stateSnapshot"])
def test_a_document_stands_for_the_fields_of_a_request(name):
    given().when(event("input.requested", **{name: DOCUMENT})).then(
        (
            "input.requested",
            {
                "interrupt_id": "c1",
                "tool_name": "refund",
                "tool_args": {"amount": 100},
                "kind": "approval",
                "expires_at": timestamps.text(NOON + HOUR),
                "run_id": "r9",
                "thread_id": "t9",
                name: None,
            },
        ),
        "session.waiting",
    )


def test_a_document_goes_with_the_fields_it_does_not_hold():
    given().when(event("input.requested", state_snapshot=DOCUMENT, kind="question", options=["respond"])).then(
        ("input.requested", {"kind": "question", "options": ["respond"], "tool_name": "refund"}), "session.waiting"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interrupt_id", "c1"),
        ("requestId", "c1"),
        ("tool_name", "refund"),
        ("args", {}),
        ("expires_at", timestamps.text(NOON + HOUR)),
        ("expiresInMs", HOUR),
        ("run_id", "r9"),
        ("threadId", "t9"),
    ],
)
def test_a_field_that_the_document_holds_is_one_too_many(name, value):
    given().when(event("input.requested", state_snapshot=DOCUMENT, **{name: value})).refused(
        InvalidRequest, f"/0/data/{name}"
    )


@pytest.mark.parametrize("path", paths(DOCUMENT))
def test_every_field_is_required(path):
    given().when(event("input.requested", state_snapshot=without(path))).refused(
        InvalidSnapshot, f"/0/data/state_snapshot/{path}"
    )


@pytest.mark.parametrize("path", ["more", "pending_tool_call/more", "run_context/more"])
def test_no_other_field_is_allowed(path):
    given().when(event("input.requested", state_snapshot=with_(path, None))).refused(
        InvalidSnapshot, f"/0/data/state_snapshot/{path}"
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 1),
        ("version", 3),
        ("version", "2"),
        ("version", None),
        ("pending_tool_call", None),
        ("pending_tool_call", []),
        ("run_context", "r9"),
        ("run_context/run_id", None),
        ("run_context/thread_id", 7),
        ("pending_tool_call/interrupt_id", "a/b"),
        ("pending_tool_call/interrupt_id", ""),
        ("pending_tool_call/tool_name", ""),
        ("pending_tool_call/tool_args", "{}"),
        ("pending_tool_call/tool_args", None),
        ("pending_tool_call/status", "PENDING"),
        ("pending_tool_call/status", "EXECUTED"),
        ("pending_tool_call/expires_at", "soon"),
        ("pending_tool_call/expires_at", 7),
        ("pending_tool_call/updated_at", "2026-02-30T00:00:00Z"),
        ("pending_tool_call/result", 0),
        ("pending_tool_call/decision", "approve"),
    ],
)
def test_every_field_is_of_its_type_and_still_undecided(path, value):
    given().when(event("input.requested", stateSnapshot=with_(path, value))).refused(
        InvalidSnapshot, f"/0/data/stateSnapshot/{path}"
    )


@pytest.mark.parametrize("document", ["{}", [], 7, False, True])
def test_a_document_is_an_object(document):
    given().when(event("input.requested", state_snapshot=document)).refused(InvalidSnapshot, "/0/data/state_snapshot")


def test_a_decided_document_is_not_asked_again():
    decision = calls.new_decision("approve", "anna", NOON)
    given().when(event("input.requested", state_snapshot=with_("pending_tool_call/decision", decision))).refused(
        InvalidSnapshot, "/0/data/state_snapshot/pending_tool_call/decision"
    )


def test_a_documents_deadline_is_held_to_the_same_limits():
    late = with_("pending_tool_call/expires_at", timestamps.text(NOON))
    given().when(event("input.requested", stateSnapshot=late)).refused(
        InvalidRequest, "/0/data/stateSnapshot/pending_tool_call/expires_at"
    )


def test_a_calls_own_document_can_be_handed_in_elsewhere():
    document = calls.snapshot_document(given(ask()).call())
    given().when(event("input.requested", state_snapshot=document)).leaves(waiting=["c1"])


def test_the_document_follows_the_call():
    story = given(ask(), approve(), claim())
    document = calls.snapshot_document(story.call())
    assert document["pending_tool_call"]["status"] == "APPROVED_EXECUTING"
    assert document["pending_tool_call"]["decision"]["action"] == "approve"
    assert state_snapshot.parse(document).run_context.run_id == "run-1"


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record["state_snapshot"].update(version=3),
        lambda record: record["state_snapshot"].update(more=1),
        lambda record: record["state_snapshot"].pop("run_context"),
        lambda record: record["state_snapshot"]["pending_tool_call"].update(decision={}),
        lambda record: record["state_snapshot"]["pending_tool_call"]["decision"].pop("note"),
        lambda record: record.update(state_snapshot=None),
        lambda record: record.pop("state_snapshot"),
        lambda record: record.pop("kind"),
        lambda record: record.update(kind="wish"),
        lambda record: record.update(options=5),
        lambda record: record.update(created_at="x"),
        lambda record: record.update(execution="?"),
        lambda record: record.update(execution={"wat": 1}),
    ],
)
def test_a_damaged_record_is_an_invalid_snapshot(damage):
    record = calls.to_record(given(ask(), approve(), claim()).call())
    damage(record)
    with pytest.raises(InvalidSnapshot):
        calls.from_record(record)


@pytest.mark.parametrize("record", [None, [], "?", 7, {}])
def test_what_is_no_record_is_an_invalid_snapshot(record):
    with pytest.raises(InvalidSnapshot):
        calls.from_record(record)


def test_a_broken_call_is_not_decided():
    given(ask()).damaged().when(approve(), by=ANNA).refused(InvalidSnapshot)


def test_a_broken_call_still_expires():
    given(ask(), question("q1")).damaged().when(ExpireDue(), at=NOON + 24 * HOUR).then(
        ("input.expired", {"interrupt_id": "c1"}), ("input.expired", {"interrupt_id": "q1"}), "session.waiting"
    ).leaves(waiting=[], parked=False)


def test_a_broken_calls_lease_still_lapses():
    given(ask(), approve(), claim(lease_ms=1_000)).damaged().when(ExpireDue(), at=NOON + 1_000).then(
        ("action.lapsed", {"interrupt_id": "c1"})
    )


def test_a_broken_call_does_not_keep_a_session_from_its_end():
    given(ask(), connect("a1")).damaged("c1").damaged("a1").when(event("session.completed")).then(
        ("input.completed", {"interrupt_id": "c1"}),
        ("authorization.completed", {"interrupt_id": "a1"}),
        "session.completed",
    )


def test_a_broken_call_does_not_touch_its_siblings():
    given(ask(), question()).damaged("c1").when(respond(1), by=ANNA).then("input.completed")


# A record that is well-formed, and at odds with its session


AT_ODDS = [{"status": "EXPIRED"}, {"status": "EXECUTED"}, {"status": "REJECTED"}, {"status": "APPROVED_EXECUTING"}]


@pytest.mark.parametrize("changes", AT_ODDS)
def test_a_call_at_odds_with_its_session_is_not_decided(changes):
    story = given(ask()).edited(**changes).when(approve(), by=ANNA).refused(InvalidSnapshot)
    story.when(claim()).refused(InvalidSnapshot)


def test_a_decided_call_that_says_pending_is_not_decided_again():
    given(ask(), approve()).edited(status="PENDING_APPROVAL", decision=None).when(reject(), by=ANNA).refused(
        InvalidSnapshot
    )


@pytest.mark.parametrize("changes", AT_ODDS)
def test_a_call_at_odds_still_expires_and_its_record_stays(changes):
    story = given(ask(), question("q1")).edited(**changes).when(ExpireDue(), at=NOON + 24 * HOUR)
    story.then(
        ("input.expired", {"interrupt_id": "c1"}), ("input.expired", {"interrupt_id": "q1"}), "session.waiting"
    ).leaves(waiting=[], parked=False)
    assert story.call().status == changes["status"]


@pytest.mark.parametrize("changes", AT_ODDS[1:])
def test_a_call_at_odds_is_not_decided_after_its_deadline_either(changes):
    given(ask()).edited(**changes).when(approve(), by=ANNA, at=NOON + 24 * HOUR).refused(InvalidSnapshot)


@pytest.mark.parametrize("status", ["PENDING_APPROVAL", "REJECTED", "EXECUTED"])
def test_the_lease_of_a_call_at_odds_still_lapses(status):
    story = given(ask(), approve(), claim(lease_ms=1_000)).edited(status=status)
    story.when(ExpireDue(), at=NOON + 1_000).then(("action.lapsed", {"interrupt_id": "c1"}))
    assert story.call().status == status


def test_a_rejected_call_with_an_execution_is_not_run():
    given(ask(), approve()).edited(status="REJECTED").when(claim()).refused(NotApproved)


@pytest.mark.parametrize("changes", AT_ODDS)
def test_a_call_at_odds_holds_up_neither_events_nor_the_end(changes):
    story = given(ask()).edited(**changes).has(event("message.appended"))
    story.when(event("session.completed")).then(("input.completed", {"action": "cancel"}), "session.completed")


def test_a_broken_record_is_raised_without_growing():
    broken = InvalidSnapshot("damaged")
    draft = Draft(Session("s1"), {"c1": broken}, Context(NOON, lambda prefix: prefix))
    depths = []
    for _ in range(3):
        with pytest.raises(InvalidSnapshot) as raised:
            draft.find("c1")
        depths.append(len(raised.traceback))
    assert depths[0] == depths[-1]


@pytest.mark.parametrize(
    ("part", "name"), [("pending_tool_call", "tool_name"), ("run_context", "thread_id"), ("run_context", "run_id")]
)
def test_names_that_are_asked_with_have_a_longest(part, name):
    sent = with_(f"{part}/{name}", "x" * 201)
    with pytest.raises(InvalidSnapshot) as raised:
        state_snapshot.parse_request(sent, "/data/state_snapshot")
    assert [error.pointer for error in raised.value.errors] == [f"/data/state_snapshot/{part}/{name}"]
    state_snapshot.parse(sent)  # one that was stored before there was a limit is read as it is
