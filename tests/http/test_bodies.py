"""What is read of a body, and how a wrong one is told."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from eventstore.domain.values import json_text

MIB = 1024 * 1024
HELD = "layby_request_body_bytes"


@pytest.fixture
def sid(api):
    return api.create()


def test_a_declared_length_beyond_the_limit_is_refused_before_it_is_sent(server):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(("path", "limit"), [("/v1/sessions", MIB), ("/v1/sessions/{}/events", 4 * MIB)])
def test_a_body_of_unknown_length_is_refused_where_it_passes_the_limit(api, sid, problem, path, limit):
    sent = 0

    def body():
        nonlocal sent
        while sent < 40 * limit:
            sent += 65_536
            yield b" " * 65_536

    try:
        answer = api.post(path.format(sid), content=body())
    except OSError:  # the answer may overtake the body
        return
    problem(answer, 413, "too-large")


def test_a_batch_of_the_largest_size_is_taken(api, sid):
    event = {"type": "a.b", "data": {"x": "y" * 200_000}}
    assert api.publish(sid, *[event] * 20).status_code == 201


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([{"type": "a.b", "data": {"x": "y" * 262_144}}], 0),
        ([{"type": "a.b"}, {"type": "a.b", "data": {"x": "y" * 262_144}}], 1),
    ],
)
def test_an_event_beyond_its_size_is_named(api, sid, problem, events, told):
    assert problem(api.publish(sid, *events), 413, "too-large")["index"] == told
    assert api.types(sid) == ["session.started"]


def test_an_event_of_exactly_its_size_is_taken(api, sid):
    event = {"type": "a.b", "data": {"x": ""}}
    event["data"]["x"] = "y" * (262_144 - len(json.dumps(event, separators=(",", ":"))))
    assert api.publish(sid, event).status_code == 201
    event["data"]["x"] += "y"
    assert api.publish(sid, event).status_code == 413


def test_a_response_too_long_for_the_patterns_of_a_call_leaves_it_pending(api, sid, problem):
    iid = api.ask(sid, kind="question", response_schema={"pattern": "(a|b)*a(a|b){500}c"})
    told = problem(api.decide(sid, iid, "respond", response="ab" * 50_000), 422, "invalid-request")["errors"]
    assert told == [{"pointer": "/response", "message": "is too long to be checked against the patterns of this call"}]
    assert api.decide(sid, iid, "respond", response="a" * 501 + "c").json()["outcome"] == "applied"


def test_a_message_beyond_the_size_of_an_event_is_refused(api, sid, problem):
    large, fits = "y" * 262_143, "y" * 262_142
    token = api.get(f"/v1/sessions/{sid}").json()["continuation_token"]
    body = problem(
        api.post(f"/v1/sessions/{sid}/messages", json={"continuation_token": token, "message": large}), 413, "too-large"
    )
    assert body["detail"] == "the message has 262145 bytes; an event has at most 262144"
    problem(api.post("/v1/sessions", json={"message": large}), 413, "too-large")
    answer = api.post("/zhin/v1/session", json={"message": large})
    assert (answer.status_code, answer.json()) == (413, {"ok": False, "error": "TOO_LARGE"})
    body = {"continuation_token": token, "message": fits}
    assert api.post(f"/v1/sessions/{sid}/messages", json=body).status_code == 200
    assert api.types(sid) == ["session.started", "message.received"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"nonsense", b'"x"', b"null", b"\xff", b'{"a":NaN}', b"\xef\xbb\xbf{}"]
)
@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/sessions/{}/messages", "/v1/sessions/{}/calls/x/claim"])
def test_no_json_object_has_nothing_to_point_into(api, sid, problem, path, body):
    assert problem(api.post(path.format(sid), content=body), 422, "invalid-request")["errors"] == []


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"type": 7}, ["/type"]),
        ({}, ["/type"]),
        ({"type": "a.b", "data": [], "x/y": 1}, ["/data", "/x~1y"]),
        (
            [{"type": "a.b"}, {"type": "A.b"}, 3, {"type": "a.b", "occurred_at": "soon"}],
            ["/1/type", "/2", "/3/occurred_at"],
        ),
        ([{"type": "a.b", "occurred_at": 5}], ["/0/occurred_at"]),
        ([{"type": "a." + "b" * 99}], ["/0/type"]),
        ([], [""]),
        ([1] * 50, [f"/{n}" for n in range(20)]),
    ],
)
def test_every_wrong_event_is_pointed_at(api, sid, problem, body, pointers):
    answer = problem(api.post(f"/v1/sessions/{sid}/events", json=body), 422, "invalid-request")
    assert [error["pointer"] for error in answer["errors"]] == pointers
    assert all(error["message"] for error in answer["errors"])


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (b'{"type":"a.b"}\n\n{"type":"a.b","data":1}\n', ["/1/data"]),
        (b'{"type":"a.b"}\n{"type"', ["/1"]),
        (b'[{"type":"a.b"}]', ["/0"]),
        (b"\n \n", [""]),
        (b'{"type":"a.b","data":{"x":["\\ud800"]}}', ["/0/data/x/0"]),
    ],
)
def test_lines_are_counted_as_an_array_is(api, sid, problem, body, pointers):
    headers = {"Content-Type": "application/x-ndjson; charset=utf-8"}
    answer = problem(api.post(f"/v1/sessions/{sid}/events", content=body, headers=headers), 422, "invalid-request")
    assert [error["pointer"] for error in answer["errors"]] == pointers


def test_anything_but_ndjson_is_read_as_json(api, sid):
    for kind in ("text/plain", "application/json; charset=utf-8", "application/x-www-form-urlencoded"):
        answer = api.post(f"/v1/sessions/{sid}/events", content=b'{"type":"a.b"}', headers={"Content-Type": kind})
        assert answer.status_code == 201


def test_a_lone_surrogate_is_pointed_at(api, problem):
    answer = problem(api.post("/v1/sessions", content=b'{"metadata":{"a":["\\ud800"]}}'), 422, "invalid-request")
    assert [error["pointer"] for error in answer["errors"]] == ["/metadata/a/0"]


@pytest.mark.parametrize(
    ("path", "body", "pointers"),
    [
        ("", {"session_id": "a b"}, ["/session_id"]),
        ("", {"steps": "both", "metadata": []}, ["/steps", "/metadata"]),
        ("/{}/messages", {}, ["/continuation_token", "/message"]),
        ("/{}/messages", {"continuation_token": "x", "message": None}, ["/message"]),
        ("/{}/calls/x/claim", {"owner": ""}, ["/owner"]),
        ("/{}/calls/x/claim", {"owner": "w" * 201}, ["/owner"]),
        ("", {"agent": "a" * 201, "run_id": "r" * 201, "thread_id": "t" * 201}, ["/agent", "/thread_id", "/run_id"]),
        ("", {"metadata": {"x": "y" * 262_144}}, ["/metadata"]),
        ("/{}/calls/x/decision", {"action": "reject", "note": "n" * 10_001}, ["/note"]),
        ("/{}/calls/x/settle", {"outcome": "executed", "note": "n" * 10_001}, ["/note"]),
        ("/{}/authorizations/x/complete", {"success": False, "error": "e" * 10_001}, ["/error"]),
        ("/{}/calls/x/claim", {"owner": "w", "lease_ms": 99}, ["/lease_ms"]),
        ("/{}/calls/x/claim", {"owner": "w", "lease_ms": 100.0}, ["/lease_ms"]),
        ("/{}/calls/x/release", {"attempt": True}, ["/attempt"]),
        ("/{}/calls/x/result", {}, ["/result"]),
        ("/{}/calls/x/settle", {"outcome": "maybe", "note": "n"}, ["/outcome"]),
        ("/{}/calls/x/settle", {"outcome": "executed"}, ["/note"]),
        ("/{}/authorizations/x/complete", {"success": "yes"}, ["/success"]),
        ("/{}/calls/x/decision", {"action": "reject", "edited_args": {}}, ["/edited_args"]),
        ("/{}/calls/x/decision", {"action": "respond"}, ["/response"]),
        ("/{}/calls/x/decision", {"action": "approve", "response": None}, ["/response"]),
        ("/{}/calls/x/decision", {"action": "approve", "by": "me"}, ["/by"]),
    ],
)
def test_a_wrong_body_is_told_before_anything_is_looked_up(api, problem, path, body, pointers):
    answer = problem(api.post(f"/v1/sessions{path}".format("ses_nobody"), json=body), 422, "invalid-request")
    assert [error["pointer"] for error in answer["errors"]] == pointers


def test_null_means_absent(api, problem):
    sid = api.create(agent=None, steps=None, metadata=None, message=None)
    iid = api.ask(sid)
    assert api.decide(sid, iid, note=None, edited_args=None, run_id=None).status_code == 200
    claimed = api.post(f"/v1/sessions/{sid}/calls/{iid}/claim", json={"owner": "w", "lease_ms": None})
    assert claimed.status_code == 200
    recorded = api.post(f"/v1/sessions/{sid}/calls/{iid}/result", json={"attempt": 1, "result": None, "is_error": None})
    assert recorded.status_code == 200 and recorded.json()["call"]["result"] is None


def test_big_numbers_come_back_whole(api):
    sid = api.create()
    body = b'{"type":"a.b","data":{"n":' + b"1" + b"0" * 4999 + b"7}}"
    assert api.post(f"/v1/sessions/{sid}/events", content=body).status_code == 201
    text = api.get(f"/v1/sessions/{sid}/events", params={"from": 2}).text
    assert "1" + "0" * 4999 + "7" in text


def raw(server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def wait_for(condition) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_bodies_under_way_are_bounded_by_their_bytes(new_server, problem):
    limit = 8 * MIB
    server = new_server(body_bytes=str(limit))
    with server.client() as api, contextlib.ExitStack() as stack:
        sid = api.create()
        path = f"/v1/sessions/{sid}/events"
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {4 * MIB}\r\n\r\n".encode()
        open_ = [stack.enter_context(raw(server)) for _ in range(2)]
        for connection in open_:
            connection.sendall(head)
        assert api.metric(HELD) == 0, "what is announced alone keeps nobody out"
        for connection in open_:
            connection.sendall(b" " * (4 * MIB - 10))
        wait_for(lambda: api.metric(HELD) == limit - 20)
        answer = api.post(path, content=b'{"type":"a.b","data":{"more":"than 20 bytes"}}')
        problem(answer, 503, "overloaded")
        assert answer.headers["retry-after"]
        problem(api.post(path, content=iter([b'{"type":"a.b",', b'"data":{"x":1}}'])), 503, "overloaded")
        open_[0].close()
        wait_for(lambda: api.metric(HELD) == limit // 2 - 10)
        assert api.publish(sid, {"type": "a.b"}).status_code == 201
        open_[1].sendall(b"[]" + b" " * 8)
        assert open_[1].recv(65_536).startswith(b"HTTP/1.1 422 ")
        wait_for(lambda: api.metric(HELD) == 0)


def test_a_body_that_is_refused_is_held_no_longer(api, sid):
    api.post(f"/v1/sessions/{sid}/events", content=b"{" * 100_000)
    with contextlib.suppress(OSError, httpx.HTTPError):  # the answer may overtake the body
        api.post("/v1/sessions", content=iter([b" " * MIB, b" " * MIB]))
    wait_for(lambda: api.metric(HELD) == 0)


def test_a_call_with_an_integer_of_any_size_is_told_in_a_refusal(api, sid):
    long = "9" * 4_301

    def refused(answer, status, slug):
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
        assert (
            answer.text.startswith(f'{{"type":"https://layby.dev/problems/{slug}"')
            and "layby-request-id" in answer.headers
        )
        assert f'"tool_args":{{"n":{long}}}' in answer.text

    def ask(iid, **more):
        data = {"interrupt_id": iid, "tool_name": "t", "tool_args": {"n": json_text.LongInteger(long)}, **more}
        body = json_text.dumps({"type": "input.requested", "data": data})
        assert api.post(f"/v1/sessions/{sid}/events", content=body).status_code == 201

    ask("c1")
    assert api.decide(sid, "c1").status_code == 200
    refused(api.decide(sid, "c1", "reject"), 409, "call-already-decided")
    result = f"/v1/sessions/{sid}/calls/c1/result"
    assert api.post(result, json={"result": 1}).status_code == 200
    refused(api.post(result, json={"result": 2}), 409, "result-already-recorded")
    assert api.post(f"/zhin/v1/session/{sid}/input", json={"requestId": "c1", "approved": False}).json() == {
        "ok": False,
        "error": "REQUEST_ALREADY_DECIDED",
    }
    ask("c2", expires_in_ms=1)
    api.get(f"/v1/sessions/{sid}/calls/c2", params={"wait_ms": 10_000})
    refused(api.decide(sid, "c2"), 410, "call-expired")
