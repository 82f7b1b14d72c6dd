"""Authorizations: calls that are completed rather than decided."""

from __future__ import annotations

import pytest

from eventstore.domain.commands import Actor, CompleteAuthorization
from eventstore.domain.errors import CallAlreadyDecided, CallExpired, CallNotFound, InvalidSnapshot, NotApproved
from tests.unit.domain.given import ANNA, DAY, NOON, ask, claim, connect, event, given, question, turn

GRANTED = CompleteAuthorization("a1", True)
DENIED = CompleteAuthorization("a1", False, "denied")


def test_a_granted_authorization_is_executed():
    story = (
        given(connect())
        .when(GRANTED, by=ANNA)
        .then(("authorization.completed", {"interrupt_id": "a1", "success": True, "error": None}), "session.waiting")
    )
    story.answers(outcome="applied", seq=4)
    call = story.result["call"]
    assert (call["status"], call["result"], call["execution"]) == ("EXECUTED", None, None)
    assert (call["decision"]["action"], call["decision"]["by"]) == ("approve", "anna")


def test_a_denied_authorization_is_rejected():
    story = (
        given(connect())
        .when(DENIED, by=ANNA)
        .then(("authorization.completed", {"success": False, "error": "denied"}), "session.waiting")
    )
    decision = story.call("a1").decision or {}
    assert (story.call("a1").status, decision["action"]) == ("REJECTED", "reject")


def test_it_resumes_an_open_turn():
    given(turn(), connect()).when(GRANTED, by=ANNA).then("authorization.completed").leaves(status="running")


@pytest.mark.parametrize("history", [[], [ask("a1")], [question("a1")]])
def test_only_an_authorization_can_be_completed(history):
    given(*history).when(GRANTED).refused(CallNotFound)


def test_a_broken_one_is_not_completed():
    given(connect()).damaged("a1").when(GRANTED).refused(InvalidSnapshot)


@pytest.mark.parametrize("command", [GRANTED, DENIED])
def test_the_same_again_is_a_duplicate(command):
    story = given(connect()).has(command, by=ANNA)
    story.when(command, by=ANNA).then().answers(outcome="duplicate", seq=4)


def test_the_error_does_not_count_for_a_duplicate():
    story = given(connect()).has(DENIED, by=ANNA)
    story.when(CompleteAuthorization("a1", False, "said otherwise"), by=ANNA).then().answers(outcome="duplicate", seq=4)


def test_another_word_or_another_principal_is_none():
    story = given(connect()).has(GRANTED, by=ANNA)
    story.when(DENIED, by=ANNA).refused(CallAlreadyDecided)
    story.when(GRANTED, by=Actor("ben")).refused(CallAlreadyDecided)


def test_too_late_is_too_late():
    given(connect()).pass_due(NOON + DAY).when(GRANTED, by=ANNA).refused(CallExpired, leaving=("input.refused",))
    given(connect()).when(DENIED, by=ANNA, at=NOON + DAY).refused(CallExpired, leaving=("input.refused",))


def test_a_retired_one_has_been_decided():
    given(connect(), event("session.failed")).when(GRANTED, by=ANNA).refused(CallAlreadyDecided)


def test_a_granted_one_is_not_run():
    given(connect(), GRANTED).when(claim("a1")).refused(NotApproved)
