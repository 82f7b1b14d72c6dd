"""A line for busy publishers: a WebSocket to one session."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.http.lines import EVENT, HANDSHAKE, Line, Wire, refused

PATH = "/v1/sessions/{}/publish"


@pytest.fixture
def sid(api):
    return api.create()


@pytest.fixture
def line(server, sid):
    with Line(server.url, sid) as opened:
        yield opened


def slug(answer):
    return answer["problem"]["type"].rpartition("/")[2]


# What a message is answered


def test_each_message_is_answered_with_what_it_became(api, sid, line):
    line.say("first")
    line.say(
        "second",
        events=[{"type": "turn.started"}, {"type": "a.b", "data": {"n": 1}, "occurred_at": "2026-11-29T12:00:00Z"}],
    )
    assert line.hear(2) == [
        {"id": "first", "first_seq": 2, "last_seq": 2, "events": [{"seq": 2, "type": "a.b"}], "durability": "fsync"},
        {
            "id": "second",
            "first_seq": 3,
            "last_seq": 5,
            "events": [
                {"seq": 3, "type": "turn.started"},
                {"seq": 4, "type": "step.started"},
                {"seq": 5, "type": "a.b"},
            ],
            "durability": "fsync",
        },
    ]
    assert api.types(sid) == ["session.started", "a.b", "turn.started", "step.started", "a.b"]


def test_the_handshake_is_an_answer_like_any_other(line):
    headers = line.headers
    assert line.socket.subprotocol == "layby.v1" and headers["Layby-Request-Id"]
    assert "Sec-WebSocket-Extensions" not in headers


def test_nothing_is_compressed(server, sid):
    with Line(server.url, sid, compression="deflate") as line:
        assert "Sec-WebSocket-Extensions" not in line.headers
        line.say("1")
        assert line.hear()[0]["first_seq"] == 2


def test_many_messages_are_answered_in_order_and_leave_together(api, sid, line):
    before = api.metric("layby_commits_total")
    names = [str(number) for number in range(500)]
    line.say(*names)
    answers = line.hear(len(names))
    assert [answer["id"] for answer in answers] == names
    assert [answer["first_seq"] for answer in answers] == list(range(2, 502))
    assert api.metric("layby_commits_total") - before < 250


def test_a_refused_message_changes_nothing_and_holds_up_nothing(api, sid, line):
    line.say("1")
    line.say("2", events=[{"type": "a.b"}, {"type": "turn.completed"}])
    line.say("3")
    one, two, three = line.hear(3)
    assert (one["first_seq"], slug(two), three["first_seq"]) == (2, "illegal-transition", 3)
    problem = two["problem"]
    assert (problem["status"], problem["index"], problem["instance"]) == (409, 1, PATH.format(sid))
    assert api.types(sid) == ["session.started", "a.b", "a.b"]


def test_a_version_can_be_demanded(line):
    line.say("1", expected_seq=1)
    line.say("2", expected_seq=1)
    line.say("3", expected_seq=2)
    line.say("4", expected_seq=None)
    one, two, three, four = line.hear(4)
    assert (one["last_seq"], three["last_seq"], four["last_seq"]) == (2, 3, 4)
    assert (slug(two), two["problem"]["current_seq"]) == ("version-mismatch", 2)


def test_asking_for_a_decision_again_is_told_as_the_first_time(line):
    asked = {"type": "input.requested", "data": {"interrupt_id": "i", "tool_name": "t", "tool_args": {}}}
    first = line.ask({"id": "1", "events": [asked]})
    assert [event["type"] for event in first["events"]] == ["input.requested", "session.waiting"]
    again = line.ask({"id": "2", "events": [asked]})
    assert again["events"] == [{"seq": 2, "type": "input.requested", "interrupt_id": "i", "status": "PENDING_APPROVAL"}]
    assert again["durability"] == "fsync"


@pytest.mark.parametrize(
    ("message", "pointers"),
    [
        ({"events": [EVENT]}, ["/id"]),
        ({"id": None, "events": [EVENT]}, ["/id"]),
        ({"id": 7, "events": [EVENT]}, ["/id"]),
        ({"id": "", "events": [EVENT]}, ["/id"]),
        ({"id": "x" * 201, "events": [EVENT]}, ["/id"]),
        ("", []),
        ("{", []),
        ("[]", []),
        ('"text"', []),
        ('{"id": "\\ud800", "events": []}', ["/id"]),
    ],
)
def test_a_message_without_an_id_is_answered_in_its_place(line, message, pointers):
    answer = line.ask(message)
    assert (answer["id"], slug(answer), answer["problem"]["status"]) == (None, "invalid-request", 422)
    assert [error["pointer"] for error in answer["problem"]["errors"]] == pointers
    assert line.ask({"id": "1", "events": [EVENT]})["first_seq"] == 2


@pytest.mark.parametrize(
    ("more", "pointers"),
    [
        ({}, ["/events"]),
        ({"events": {}}, ["/events"]),
        ({"events": []}, ["/events"]),
        ({"events": [EVENT], "also": 1, "a/b": 2}, ["/also", "/a~1b"]),
        ({"events": [EVENT], "expected_seq": "1"}, ["/expected_seq"]),
        ({"events": [EVENT], "expected_seq": -1}, ["/expected_seq"]),
        ({"events": [EVENT], "expected_seq": True}, ["/expected_seq"]),
        ({"events": [EVENT, {"type": "Bad"}, 7]}, ["/events/1/type", "/events/2"]),
        ({"events": [{"type": "input.requested", "data": {"interrupt_id": 1}}]}, ["/events/0/data/interrupt_id"]),
    ],
)
def test_pointers_lead_into_the_message(line, more, pointers):
    answer = line.ask({"id": "m", **more})
    assert (answer["id"], slug(answer)) == ("m", "invalid-request")
    assert [error["pointer"] for error in answer["problem"]["errors"]][: len(pointers)] == pointers


def test_its_limits_are_those_of_a_request(line):
    large = {"type": "a.b", "data": {"text": "x" * (256 * 1024)}}
    answers = [
        line.ask({"id": "1", "events": [EVENT] * 1_001}),
        line.ask({"id": "2", "events": [EVENT, large]}),
        line.ask({"id": "3", "events": [{"type": "a.b", "data": {"text": "x" * 200_000}}] * 21}),
    ]
    assert [slug(answer) for answer in answers] == ["too-large"] * 3
    assert answers[1]["problem"]["index"] == 1
    assert line.ask({"id": "4", "events": [{"type": "a.b", "data": {"text": "x" * 200_000}}] * 20})["last_seq"] == 21


def test_of_a_session_that_ends_or_is_deleted_meanwhile_each_message_hears(api, sid, line):
    line.say("1", events=[{"type": "session.completed"}])
    line.say("2")
    assert [slug(answer) for answer in line.hear(2)[1:]] == ["illegal-transition"]
    api.delete(f"/v1/sessions/{sid}")
    line.say("3")
    answer = line.hear()[0]
    assert (slug(answer), answer["problem"]["status"]) == ("session-deleted", 410)


def test_messages_come_in_any_number_of_pieces(server, sid):
    message = json.dumps(
        {"id": "1", "events": [EVENT, {"type": "c.d", "data": {"text": "é" * 300}}]}, ensure_ascii=False
    )
    with Wire(server.url) as wire:
        assert wire.upgrade(PATH.format(sid)).startswith("HTTP/1.1 101 Switching Protocols\r\n")
        pieces = [message.encode()[at : at + 100] for at in range(0, len(message.encode()), 100)]
        for number, piece in enumerate(pieces):
            wire.send(piece, kind=0 if number else 1, last=piece is pieces[-1])
            wire.send(b"", kind=9)
        answers = [wire.frame() for _ in range(len(pieces) + 1)]
    assert sorted(kind for kind, _ in answers) == [1] + [10] * len(pieces)
    assert json.loads(next(payload for kind, payload in answers if kind == 1))["last_seq"] == 3


# Who may open one


def test_a_plain_request_hears_what_the_route_is(api, sid, problem):
    answer = api.get(PATH.format(sid))
    problem(answer, 426, "upgrade-required")
    assert (answer.headers["upgrade"], answer.headers["sec-websocket-version"]) == ("websocket", "13")
    problem(api.post(PATH.format(sid), json=[EVENT]), 405, "method-not-allowed")
    wish = {"Connection": "Upgrade", "Upgrade": "h2c"}
    problem(api.get(PATH.format(sid), headers=wish), 426, "upgrade-required")


@pytest.mark.parametrize(
    ("name", "status", "kind"), [("nobody", 404, "session-not-found"), ("%20", 404, "session-not-found")]
)
def test_there_is_no_line_to_no_session(server, name, status, kind):
    code, body, headers = refused(server.url, name)
    assert (code, body["type"].rpartition("/")[2]) == (status, kind)
    assert headers["Content-Type"] == "application/problem+json" and headers["Layby-Request-Id"]


def test_there_is_no_line_to_a_deleted_session(api, server, sid):
    api.delete(f"/v1/sessions/{sid}")
    assert refused(server.url, sid)[0] == 410


@pytest.mark.parametrize(("offered", "opens"), [(["other"], False), (None, False), (["x", "layby.v1"], True)])
def test_the_subprotocol_must_be_offered(server, sid, offered, opens):
    if opens:
        with Line(server.url, sid, subprotocols=offered) as line:
            assert line.socket.subprotocol == "layby.v1"
        return
    code, body, _ = refused(server.url, sid, subprotocols=offered)
    assert code == 400 and [error["header"] for error in body["errors"]] == ["Sec-WebSocket-Protocol"]


@pytest.mark.parametrize(
    ("was", "becomes", "status"),
    [
        ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8", 426),
        ("Sec-WebSocket-Version: 13\r\n", "", 426),
        ("dGhlIHNhbXBsZSBub25jZQ==", "short", 400),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400),
        ("HTTP/1.1", "HTTP/1.0", 426),
        ("/publish", "/publish?producer=", 400),
        ("/publish", "/publish?producer=%E9", 400),
        ("/publish", "/publish?producer=%C3%A9", 400),
        ("/publish", f"/publish?producer={'x' * 199}", 400),
        ("/publish", "/publish?name=x", 400),
    ],
)
def test_a_garbled_handshake_is_refused_in_the_ordinary_form(server, sid, was, becomes, status):
    with Wire(server.url) as wire:
        wire.socket.sendall(HANDSHAKE.format(path=PATH.format(sid)).replace(was, becomes).encode())
        head = wire.head().lower()
        assert head.startswith(f"http/1.1 {status} ") and "content-type: application/problem+json" in head


def test_after_a_refusal_the_connection_goes_on(server, sid):
    with Wire(server.url) as wire:
        head = wire.upgrade(PATH.format("nobody")).lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        while len(wire.heard) < length:
            wire.heard += wire._read()
        wire.heard = wire.heard[length:]
        assert head.startswith("http/1.1 404 ") and wire.upgrade(PATH.format(sid)).startswith("HTTP/1.1 101 ")


def test_the_wish_is_passed_over_where_there_is_no_line(server, sid):
    with Wire(server.url) as wire:
        assert wire.upgrade("/healthz").startswith("HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("origin", "opens"), [("https://evil.example", False), ("http://localhost:3000", True), ("null", False)]
)
def test_a_page_of_somebody_else_opens_no_line_to_an_open_server(server, sid, origin, opens):
    if opens:
        with Line(server.url, sid, origin=origin) as line:
            line.say("1")
            assert line.hear()[0]["first_seq"] == 2
        return
    code, body, _ = refused(server.url, sid, origin=origin)
    assert (code, body["type"].rpartition("/")[2]) == (403, "untrusted-origin")


def test_another_name_of_the_host_opens_no_line_to_an_open_server(server, sid):
    code, body, _ = refused(server.url, sid, headers={"Host": "rebound.example"})
    assert (code, body["type"].rpartition("/")[2]) == (403, "untrusted-origin")


def test_the_person_behind_a_console_is_named(api, server, sid):
    with Line(server.url, sid, headers={"Layby-Actor": "anna"}) as line:
        line.say("1")
        line.hear()
    assert api.page(sid)["events"][-1]["by"] == "anna"
    assert refused(server.url, sid, headers={"Layby-Actor": "layby"})[0] == 400


def test_the_example_of_the_page_does_what_it_shows(server, sid, capsys):
    page = (Path(__file__).parents[2] / "docs" / "line.md").read_text("utf-8")
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    exec(code.replace("127.0.0.1:8700", server.url.partition("://")[2]), {"session_id": sid})
    assert capsys.readouterr().out == shown
