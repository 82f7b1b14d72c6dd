"""Starting a session, and speaking to it."""

from __future__ import annotations

import pytest

from eventstore.domain.commands import CreateSession, RecordResult, SendMessage, SettleCall
from eventstore.domain.draft import Policy
from eventstore.domain.errors import ContinuationTokenStale, SessionBusy, SessionExists, SessionTerminal, TooLarge
from eventstore.domain.events import EVENT_BYTES
from tests.unit.domain.given import ANNA, NOON, Story, approve, ask, claim, event, given, question, respond, turn


def test_a_session_starts_with_what_it_was_given():
    command = CreateSession("s1", "helper", "thread-9", "run-9", "explicit", {"team": "billing"})
    Story(Policy()).when(command, by=ANNA).then(
        (
            "session.started",
            {
                "agent": "helper",
                "thread_id": "thread-9",
                "run_id": "run-9",
                "steps": "explicit",
                "metadata": {"team": "billing"},
                "continuation_token": "token_1",
            },
        )
    ).answers(session_id="s1", seq=1, status="running", continuation_token="token_1")


def test_a_session_starts_with_defaults():
    Story(Policy()).when(CreateSession("s1")).then(
        (
            "session.started",
            {"agent": None, "thread_id": "s1", "run_id": "run_2", "steps": "turn", "metadata": {}},
        )
    )


def test_a_first_message_follows_the_start():
    Story(Policy()).when(CreateSession("s1", run_id="r", message="hi")).then(
        ("session.started", {"continuation_token": "token_1"}),
        ("message.received", {"text": "hi", "continuation_token": "token_2"}),
    ).answers(seq=2, status="running", continuation_token="token_2")


def test_an_empty_first_message_is_a_message():
    Story(Policy()).when(CreateSession("s1", message="")).then("session.started", ("message.received", {"text": ""}))


def test_a_session_starts_once():
    given().when(CreateSession("s1")).refused(SessionExists)


def test_the_start_is_remembered():
    assert (given().session.created_at, given().session.agent) == (NOON, "helper")


def test_a_message_gives_a_new_token():
    story = given()
    story.when(SendMessage("token_1", "hi"), by=ANNA).then(
        ("message.received", {"text": "hi", "continuation_token": "token_2"})
    ).answers(session_id="s1", seq=2, continuation_token="token_2")


def test_a_token_is_good_for_one_message():
    given(SendMessage("token_1", "hi")).when(SendMessage("token_1", "hi")).refused(ContinuationTokenStale)


def test_a_message_during_a_turn_is_refused():
    given(turn()).when(SendMessage("token_1", "hi")).refused(SessionBusy)


def test_a_message_while_a_call_waits_is_taken_and_leaves_it_open():
    story = given(turn(), ask())
    story.when(SendMessage(story.session.token, "hi"), by=ANNA).then("message.received").leaves(
        status="waiting", parked=True, waiting=["c1"]
    )


def test_the_end_is_looked_at_before_the_token():
    given(event("session.completed")).when(SendMessage("old", "hi")).refused(SessionTerminal)


def test_the_token_is_looked_at_before_the_turn():
    given(turn()).when(SendMessage("old", "hi")).refused(ContinuationTokenStale)


def test_a_message_has_a_largest_size_too():
    largest = "y" * (EVENT_BYTES - 2)
    story = given()
    story.when(SendMessage("token_1", largest + "y")).refused(TooLarge)
    story.when(SendMessage("token_1", "é" * (EVENT_BYTES // 2))).refused(TooLarge)
    story.when(SendMessage("token_1", largest)).then("message.received")
    Story(Policy()).when(CreateSession("s1", message=largest + "y")).refused(TooLarge)
    Story(Policy()).when(CreateSession("s1", message=largest)).then("session.started", "message.received")


@pytest.mark.parametrize("size", [EVENT_BYTES - 100, EVENT_BYTES])
def test_whatever_a_request_puts_into_an_event_has_a_largest_size(size):
    large, fits = "y" * size, size < EVENT_BYTES

    def check(story, command, *events):
        story.when(command, by=ANNA)
        story.then(*events) if fits else story.refused(TooLarge)

    check(given(question()), respond(large), "input.completed", "session.waiting")
    check(given(ask(allow_edits=True)), approve(edited_args={"x": large}), "input.completed", "session.waiting")
    check(given(ask(), approve(), claim()), RecordResult("c1", {"x": large}, 1), "action.result")
    lost = given(ask(), approve(), claim(lease_ms=100))
    lost.pass_due(NOON + 1_000)
    check(lost, SettleCall("c1", "executed", "it ran", {"x": large}), "action.settled")
