"""Messages of a publisher's line, taken apart."""

from __future__ import annotations

import json

import pytest

from api.publish_line import messages
from eventstore.domain.errors import InvalidRequest, VersionMismatch

EVENTS = b'[ {"type": "a.b", "data": {"list": [1, "]"]}} ]'


@pytest.mark.parametrize(
    "message",
    [b'{"id": "1", "events": %s}', b'{"events":%s,"id":"1"}', b' { "events" : %s , "expected_seq" : 7 , "id" : "1" } '],
)
def test_the_events_are_found_as_they_were_sent(message):
    assert messages.events_text(message % EVENTS) == EVENTS


@pytest.mark.parametrize("name", ["[1]", "job[3]", "]", 'a","events":[]', "\N{FULLWIDTH LEFT SQUARE BRACKET}"])
def test_the_id_does_not_count_whatever_it_holds(name):
    """So that the same key may go on over HTTP."""
    told = json.dumps(name).encode()
    assert messages.events_text(b'{"id":%s,"events":%s}' % (told, EVENTS)) == EVENTS
    assert messages.events_text(b'{"events":%s,"id":%s}' % (EVENTS, told)) == EVENTS


def test_long_numbers_and_the_last_of_two_are_as_they_are_read():
    long = b'[{"type":"a.b","data":{"n":%s}}]' % (b"9" * 6_000)
    assert messages.events_text(b'{"id":"1","events":[],"events":%s}' % long) == long


@pytest.mark.parametrize("expected", [None, 0, 1, 10**30])
def test_a_version_may_be_any_whole_number(expected):
    message = {"id": "1", "events": json.loads(EVENTS), "expected_seq": expected}
    command = messages.command_of(message, json.dumps(message).encode())
    assert (command.expected_seq, [event.pointer for event in command.events]) == (expected, ["/events/0"])


def test_a_version_of_thousands_of_digits_is_none():
    data = b'{"id":"1","events":%s,"expected_seq":%s}' % (EVENTS, b"9" * 5_000)
    with pytest.raises(InvalidRequest) as refused:
        messages.command_of(messages.read(data), data)
    assert [error.pointer for error in refused.value.errors] == ["/expected_seq"]


def test_a_refusal_tells_the_problem_and_the_path_of_the_line():
    told = json.loads(messages.refusal("é", VersionMismatch("it is at 5", current_seq=5), "/path"))
    assert told["id"] == "é"
    assert (told["problem"]["status"], told["problem"]["instance"], told["problem"]["current_seq"]) == (412, "/path", 5)


def test_what_cannot_be_told_back_is_no_fault():
    error = InvalidRequest.body("/events", "a lone \ud800")
    assert json.loads(messages.refusal(None, error, "/path"))["id"] is None
