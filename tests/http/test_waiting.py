"""Holding an answer until a call is decided."""

from __future__ import annotations

import threading
import time

import httpx
import pytest


@pytest.fixture
def asked(api):
    sid = api.create()
    return sid, api.ask(sid)


def path(asked):
    return "/v1/sessions/{}/calls/{}".format(*asked)


def waiting(api, asked):
    """A thread that waits for the call; it gives the answer in the list."""
    answers = list[httpx.Response]()
    thread = threading.Thread(target=lambda: answers.append(api.get(path(asked), params={"wait_ms": 20_000})))
    thread.start()
    return thread, answers


@pytest.mark.parametrize("how", ["decide", "end", "delete"])
def test_it_answers_as_soon_as_there_is_something_to_tell(api, server, asked, eventually, how):
    sid, iid = asked
    with server.client() as other:
        before = other.metric("layby_followed_sessions")
        thread, answers = waiting(api, asked)
        eventually(lambda: other.metric("layby_followed_sessions") > before)
        other.publish(sid, {"type": "a.b"})
        assert thread.is_alive()
        if how == "decide":
            other.decide(sid, iid, "reject")
        elif how == "end":
            other.publish(sid, {"type": "session.completed"})
        else:
            other.delete(f"/v1/sessions/{sid}")
        thread.join(5)
        (answer,) = answers
        if how == "delete":
            assert answer.status_code == 410
        else:
            assert answer.json()["status"] == "REJECTED"
        eventually(lambda: other.metric("layby_followed_sessions") == before)


def test_an_expiry_is_something_to_tell(api):
    sid = api.create()
    iid = api.ask(sid, expires_in_ms=300)
    began = time.monotonic()
    assert api.get(path((sid, iid)), params={"wait_ms": 20_000}).json()["status"] == "EXPIRED"
    assert time.monotonic() - began < 3


def test_it_answers_when_the_time_is_up(api, asked):
    began = time.monotonic()
    answer = api.get(path(asked), params={"wait_ms": 300})
    assert answer.json()["status"] == "PENDING_APPROVAL" and 0.29 < time.monotonic() - began < 3


def test_what_is_decided_already_is_told_at_once(api, asked):
    api.decide(*asked)
    assert api.get(path(asked), params={"wait_ms": 60_000}).json()["status"] == "APPROVED_EXECUTING"


def test_what_is_not_there_is_not_waited_for(api, asked, problem):
    problem(api.get(path((asked[0], "nope")), params={"wait_ms": 60_000}), 404, "call-not-found")
    problem(api.get(path(("nope", "nope")), params={"wait_ms": 60_000}), 404, "session-not-found")


def test_a_client_that_goes_leaves_nothing_behind(api, server, asked, eventually):
    before = api.metric("layby_followed_sessions")
    with server.client() as other:
        other.timeout = 0.3
        with pytest.raises(Exception, match="timed out"):
            other.get(path(asked), params={"wait_ms": 60_000})
    eventually(lambda: api.metric("layby_followed_sessions") == before)
