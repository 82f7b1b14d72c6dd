"""Following a session: the frames, where it begins, and what ends it."""

from __future__ import annotations

import json

import pytest

SSE = {"Accept": "text/event-stream"}
EVENT = {"type": "a.b"}


@pytest.fixture
def sid(api):
    return api.create()


def test_frames_to_the_letter(api, sid):
    api.publish(sid, {"type": "a.b", "data": {"t": "x\u2028y\n"}}, {"type": "session.completed"})
    stored = api.get(f"/v1/sessions/{sid}/events").text.split("\n")
    answer = api.get(f"/v1/sessions/{sid}/stream", headers=SSE)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store" and answer.headers["x-accel-buffering"] == "no"
    assert answer.content.decode() == (
        f"id: 1\nevent: session.started\ndata: {stored[0]}\n\n"
        f"id: 2\nevent: a.b\ndata: {stored[1]}\n\n"
        f"id: 3\nevent: session.completed\ndata: {stored[2]}\n\n"
        'event: end\ndata: {"reason":"terminal","next_from":4}\n\n'
    )
    lines = api.get(f"/v1/sessions/{sid}/stream").text
    assert lines == "\n".join([*stored[:3], '{"end":{"reason":"terminal","next_from":4}}', ""])


@pytest.mark.parametrize(("headers", "beat"), [({}, ""), (SSE, ":")])
def test_a_quiet_stream_begins_at_once_and_beats(api, sid, headers, beat):
    with api.follow(sid, headers, **{"from": "now"}) as lines:
        assert [next(lines) for _ in range(3)] == ([beat] * 3 if not headers else [beat, "", beat])


@pytest.mark.parametrize(
    ("start", "seqs"),
    [
        ("1", [1, 2, 3, 4]),
        ("3", [3, 4]),
        ("-2", [3, 4]),
        ("-99", [1, 2, 3, 4]),
        ("now", []),
        ("9", []),
        ("9" * 16, []),
        ("9" * 5_000, []),
        ("-" + "9" * 20, [1, 2, 3, 4]),
    ],
)
def test_it_begins_where_it_is_told_to(api, sid, events_of, start, seqs):
    api.publish(sid, EVENT, EVENT, {"type": "session.failed"})
    with api.follow(sid, **{"from": start}) as lines:
        *events, end = events_of(lines)
    assert [event["seq"] for event in events] == seqs and end["end"]["reason"] == "terminal"


def test_the_last_id_beats_the_query(api, sid, events_of):
    api.publish(sid, EVENT, {"type": "session.failed"})
    with api.follow(sid, {"Last-Event-ID": "2"}, **{"from": "1"}) as lines:
        assert [event.get("seq") for event in events_of(lines)] == [3, None]


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "9" * 15 + "x"])
def test_a_garbled_last_id_is_no_full_replay(api, sid, problem, value):
    answer = api.get(f"/v1/sessions/{sid}/stream", headers={**SSE, "Last-Event-ID": value})
    assert [e["header"] for e in problem(answer, 400, "invalid-request")["errors"]] == ["Last-Event-ID"]


@pytest.mark.parametrize(
    ("last", "status"),
    [("1", 200), ("2", 204), ("50", 204), ("0" * 20 + "1", 200), ("9" * 15, 204), ("9" * 16, 204), ("9" * 5_000, 204)],
)
def test_an_event_source_is_stopped_at_the_end_only(api, sid, last, status):
    api.publish(sid, {"type": "session.completed"})
    assert api.get(f"/v1/sessions/{sid}/stream", headers={**SSE, "Last-Event-ID": last}).status_code == status
    assert api.get(f"/v1/sessions/{sid}/stream", headers={"Last-Event-ID": last}).status_code == 200


def test_it_ends_after_what_it_was_told_to_wait_for(api, sid, events_of):
    api.publish(sid, {"type": "turn.started"})
    iid = api.ask(sid)  # seq 4 to 6
    api.decide(sid, iid)
    api.publish(sid, {"type": "turn.completed"}, EVENT, {"type": "session.completed"})
    types = api.types(sid)
    for until, following in (
        ("parked", 7),
        ("idle", types.index("a.b") + 1),
        ("terminal", len(types) + 1),
    ):
        with api.follow(sid, until=until) as lines:
            *events, end = events_of(lines)
        assert end == {"end": {"reason": until, "next_from": following}}
        assert events[-1]["seq"] == following - 1


def test_what_is_filtered_out_ends_it_all_the_same(api, sid, events_of):
    api.publish(sid, {"type": "turn.started"}, EVENT, {"type": "turn.completed"}, EVENT)
    with api.follow(sid, types="a.*", until="idle") as lines:
        assert [event.get("seq") for event in events_of(lines)] == [4, None]


def test_a_publisher_cannot_fake_being_parked(api, sid, events_of):
    api.publish(sid, {"type": "turn.started"})
    api.ask(sid, 'x"data":{"parked":false,')
    with api.follow(sid, until="parked") as lines:
        assert events_of(lines)[-1]["end"]["reason"] == "parked"


def test_history_is_followed_by_what_comes(api, server, sid):
    with api.follow(sid) as lines, server.client() as other:
        assert json.loads(next(lines))["seq"] == 1
        for n in range(2, 30):
            other.publish(sid, EVENT)
            assert json.loads(next(line for line in lines if line))["seq"] == n


def test_deletion_ends_every_stream(api, server, sid, events_of):
    with api.follow(sid) as lines, server.client() as other:
        next(lines)
        other.delete(f"/v1/sessions/{sid}")
        assert events_of(lines) == [{"end": {"reason": "deleted", "next_from": 2}}]


def test_nobody_is_followed_when_clients_have_gone(api, server, sid, eventually):
    before = api.metric("layby_followed_sessions")
    for headers in ({}, SSE):
        with server.client() as other, other.follow(sid, headers) as lines:
            next(lines)
            assert api.metric("layby_open_tails") == 1
            assert api.metric("layby_followed_sessions") == before + 1
        eventually(lambda: api.metric("layby_open_tails") == 0)
        assert api.metric("layby_followed_sessions") == before


def test_head_tells_without_following(api, sid, eventually):
    answer = api.head(f"/v1/sessions/{sid}/stream", headers=SSE)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    eventually(lambda: api.metric("layby_open_tails") == 0)


def test_a_long_history_is_whole(api, events_of):
    sid = api.create()
    for _ in range(3):
        api.publish(sid, *[{"type": "a.b", "data": {"x": "y" * 3000}}] * 1000)
    api.publish(sid, {"type": "session.completed"})
    with api.follow(sid) as lines:
        assert [event.get("seq") for event in events_of(lines)] == [*range(1, 3003), None]


def test_a_slow_reader_gets_all_of_it_to_the_last_byte(api, server, eventually):
    sid, quiet = api.create(), api.create()
    for _ in range(5):
        api.publish(sid, *[{"type": "a.b", "data": {"x": "y" * 200_000}}] * 20)
    api.publish(sid, {"type": "session.completed"})
    with server.client() as slow, slow.stream("GET", f"/v1/sessions/{sid}/stream") as answer:
        with api.follow(quiet, **{"from": "now"}) as beats:
            assert [next(beats) for _ in range(10)]  # two seconds in which nothing is read
        eventually(lambda: api.metric("layby_open_tails") == 1)
        *_, last = answer.iter_lines()
    assert json.loads(last) == {"end": {"reason": "terminal", "next_from": 103}}
