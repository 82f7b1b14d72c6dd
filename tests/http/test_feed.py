"""Following all sessions over HTTP. What the feed holds, and in which order, is tested with the store."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import pytest

SSE = {"Accept": "text/event-stream"}
EVENT = {"type": "a.b", "data": {"t": "x\u2028y"}}


@contextmanager
def following(api, headers=None, **params):
    """The lines of the feed, heartbeats among them."""
    with api.stream("GET", "/v1/stream", params=params, headers=headers, timeout=20) as answer:
        assert answer.status_code == 200, answer.read()
        yield answer.iter_lines()


def take(lines, count):
    found = []
    while len(found) < count:
        if line := next(lines):
            found.append(json.loads(line))
    return found


def frames(lines, count):
    """So many SSE frames, as dicts of their fields."""
    found, fields = [], {}
    while len(found) < count:
        line = next(lines)
        if not line and fields:
            found.append(fields)
            fields = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
    return found


def now(api):
    """A cursor from which on only what the test does is told."""
    with following(api, cursor="now") as lines:
        sid = api.create()
        (item,) = take(lines, 1)
    assert item["session_id"] == sid
    return item["cursor"]


def test_lines_to_the_letter(api):
    cursor = now(api)
    sid = api.create()
    api.publish(sid, EVENT)
    stored = api.get(f"/v1/sessions/{sid}/events").text.split("\n")
    with api.stream("GET", "/v1/stream", params={"cursor": cursor}, timeout=20) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert answer.headers["cache-control"] == "no-store"
        lines = [line for _, line in zip(range(2), filter(None, answer.iter_lines()), strict=False)]
    for line, event in zip(lines, stored, strict=False):
        cursor = json.loads(line)["cursor"]
        assert line == f'{{"session_id":"{sid}",{event[1:-1]},"cursor":"{cursor}"}}'


def test_frames_carry_the_cursor_as_their_id(api):
    cursor = now(api)
    sid = api.create()
    api.publish(sid, EVENT)
    with following(api, SSE, cursor=cursor) as lines:
        first, second = frames(lines, 2)
    assert [first["event"], second["event"]] == ["session.started", "a.b"]
    assert json.loads(first["data"])["cursor"] == first["id"] != second["id"]
    with following(api, {**SSE, "Last-Event-ID": first["id"]}, cursor=second["id"]) as lines:
        (again,) = frames(lines, 1)
    assert again["event"] == second["event"]
    one, other = json.loads(again["data"]), json.loads(second["data"])
    assert one.pop("cursor") != other.pop("cursor"), "sealed anew each time"
    assert one == other


@pytest.mark.parametrize(("headers", "beat"), [({}, ""), (SSE, ":")])
def test_a_quiet_feed_begins_at_once_and_beats(api, headers, beat):
    with following(api, headers, cursor="now") as lines:
        assert [next(lines) for _ in range(3)] == ([beat] * 3 if not headers else [beat, "", beat])


def test_without_a_cursor_it_begins_at_the_beginning(new_server):
    with new_server().client() as api:
        sids = [api.create() for _ in range(5)]
        with following(api) as lines:
            assert {item["session_id"] for item in take(lines, 5)} == set(sids)


def test_it_follows_what_comes(api, server):
    with following(api, cursor="now") as lines, server.client() as other:
        sid = other.create()
        assert take(lines, 1)[0]["type"] == "session.started"
        for n in range(2, 20):
            other.publish(sid, EVENT)
            assert take(lines, 1)[0]["seq"] == n


def test_types_filter_events_and_a_deletion_comes_whatever_they_are(api):
    cursor = now(api)
    sid, gone = api.create(), api.create()
    api.publish(sid, EVENT, {"type": "x.y"}, EVENT)
    api.publish(gone, {"type": "x.y"})
    api.delete(f"/v1/sessions/{gone}")
    with following(api, cursor=cursor, types="x.*") as lines:
        items = take(lines, 2)
    told = {item["session_id"]: {name: item[name] for name in item if name in ("seq", "deleted")} for item in items}
    assert told == {sid: {"seq": 3}, gone: {"deleted": True}}
    deletion = next(item for item in items if "deleted" in item)
    assert list(deletion) == ["session_id", "deleted", "cursor"]
    with following(api, SSE, cursor=cursor, types="x.*") as lines:
        assert {frame["event"] for frame in frames(lines, 2)} == {"x.y", "deleted"}


@pytest.mark.parametrize("cursor", ["", "x", "1", "NOW", "a b", "AAAA" * 30])
def test_a_garbled_cursor_is_refused_before_anything_begins(api, problem, cursor):
    answer = api.get("/v1/stream", params={"cursor": cursor})
    assert [e["parameter"] for e in problem(answer, 400, "invalid-request")["errors"]] == ["cursor"]


@pytest.mark.parametrize("last_id", ["", "x", "now", "7"])
def test_a_garbled_last_id_is_no_full_replay(api, problem, last_id):
    answer = api.get("/v1/stream", headers={**SSE, "Last-Event-ID": last_id}, params={"cursor": "now"})
    assert [e["header"] for e in problem(answer, 400, "invalid-request")["errors"]] == ["Last-Event-ID"]


def test_garbled_types_are_refused(api, problem):
    problem(api.get("/v1/stream", params={"types": "A"}), 400, "invalid-request")


def test_head_tells_without_following(api, eventually):
    answer = api.head("/v1/stream", headers=SSE)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    eventually(lambda: api.metric("layby_open_tails") == 0)


def test_a_stopping_server_cuts_it(new_server):
    server = new_server()
    with server.client() as api, following(api, cursor="now") as lines:
        next(lines)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        assert all(not line for line in lines), "no end, no error: just closed"
        stopper.join()
    assert server.process.returncode == 0


def test_what_many_write_at_once_comes_once_and_in_order(api, server):
    cursor, count = now(api), 30
    sids = [api.create() for _ in range(8)]

    def write(sid):
        with server.client() as other:
            for _ in range(count):
                other.publish(sid, EVENT, EVENT)

    writers = [threading.Thread(target=write, args=(sid,)) for sid in sids]
    for writer in writers:
        writer.start()
    seen = {sid: [] for sid in sids}
    while any(len(seqs) < 1 + 2 * count for seqs in seen.values()):
        with following(api, cursor=cursor) as lines:  # a client that leaves every now and then
            for item in take(lines, min(40, sum(1 + 2 * count - len(seqs) for seqs in seen.values()))):
                seen[item["session_id"]].append(item["seq"])
                cursor = item["cursor"]
    for writer in writers:
        writer.join()
    assert all(seqs == list(range(1, 2 + 2 * count)) for seqs in seen.values())
