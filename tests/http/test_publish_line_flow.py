"""Lines that are full, repeated, cut and broken: what is answered then, and what is not lost."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
import time
import uuid
from collections import deque
from contextlib import contextmanager, suppress

import pytest
from websockets.exceptions import ConnectionClosed

from eventstore.embedded.data_directory import Lock
from proofs.line import frame
from tests.http.doors import Doors, until
from tests.http.lines import EVENT, HANDSHAKE, Line, Wire, goodbye, refused

PATH = "/v1/sessions/{}/publish"
CUT_S = 5.0
WAITING = "layby_commands_waiting"


@pytest.fixture
def sid(api):
    return api.create()


@pytest.fixture
def producer():
    return f"p{uuid.uuid4().hex[:8]}"


@contextmanager
def halted(server):
    """The engine does nothing meanwhile."""
    pid = int(Lock(server.data_dir / "engine.lock").holder())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def slug(answer):
    return answer["problem"]["type"].rpartition("/")[2]


def message(name, **more):
    return json.dumps({"id": name, "events": [EVENT], **more}).encode()


# How much may be under way


def test_64_messages_are_taken_and_the_rest_is_not_read(api, server, sid, eventually):
    names = [str(number) for number in range(300)]
    with Line(server.url, sid) as line:
        with halted(server):
            line.say(*names)
            eventually(lambda: api.metric(WAITING) == 64)
            time.sleep(0.3)
            assert api.metric(WAITING) == 64
        answers = line.hear(len(names))
    assert [answer["id"] for answer in answers] == names
    assert [answer["first_seq"] for answer in answers] == list(range(2, 302))


def test_a_sender_is_held_back_while_nothing_is_answered(api, server, sid, eventually):
    large = json.dumps({"id": "1", "events": [{"type": "a.b", "data": {"text": "x" * 60_000}}]}).encode()
    sent = 0
    with Wire(server.url) as wire:
        wire.upgrade(PATH.format(sid))
        with halted(server):
            wire.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                while sent < 1_000:
                    wire.send(large)
                    sent += 1
            held = api.metric("layby_request_body_bytes")
    assert 64 <= sent < 1_000 and 64 * 60_000 < held < 66 * 60_100
    eventually(lambda: api.metric("layby_request_body_bytes") == 0)


def test_where_many_commands_wait_a_line_waits_too(new_server):
    server = new_server(max_pending="8")
    with server.client() as api, Line(server.url, api.create()) as line:
        names = [str(number) for number in range(100)]
        line.say(*names)
        answers = line.hear(len(names))
    assert [(answer["id"], answer["first_seq"]) for answer in answers] == [(name, int(name) + 2) for name in names]


def test_a_line_is_closed_when_too_many_bytes_are_under_way(new_server, eventually):
    server = new_server(body_bytes=str(8 * 1024 * 1024))
    part = b'{"id":"1","events":[' + b" " * 3_900_000
    with server.client() as api, Wire(server.url) as one, Wire(server.url) as two, Wire(server.url) as three:
        sid = api.create()
        for wire in (one, two, three):
            wire.upgrade(PATH.format(sid))
        for wire in (one, two):
            wire.send(part, last=False)
        eventually(lambda: api.metric("layby_request_body_bytes") == 2 * len(part))
        three.send(message("first"))
        three.send(part, last=False)
        assert json.loads(three.frame()[1])["first_seq"] == 2
        assert three.closing() == 1013
        one.send(json.dumps(EVENT).encode() + b"]}", kind=0)
        assert json.loads(one.frame()[1])["first_seq"] == 3
        two.socket.close()
        eventually(lambda: api.metric("layby_request_body_bytes") == 0)


# The same again


def test_a_repeat_over_a_reconnect_hears_the_first_answers(api, server, sid, producer):
    names = [str(number) for number in range(100)]
    with Line(server.url, sid, producer=producer) as line:
        line.say(*names)
        first = line.hear(len(names))
    with Line(server.url, sid, producer=producer) as line:
        line.say(*names, "new")
        again = line.hear(len(names) + 1)
    assert again[:-1] == first and again[-1]["first_seq"] == 102
    assert len(api.types(sid)) == 102


def test_what_was_never_heard_can_be_repeated(api, server, sid, producer):
    names = [str(number) for number in range(50)]
    with Wire(server.url) as wire:
        wire.upgrade(f"{PATH.format(sid)}?producer={producer}")
        for name in names:
            wire.send(message(name))
    with Line(server.url, sid, producer=producer) as line:
        line.say(*names)
        answers = line.hear(len(names))
    assert [answer["first_seq"] for answer in answers] == list(range(2, 52))
    assert len(api.types(sid)) == 51


def test_over_lines_that_are_cut_again_and_again_everything_comes_once_and_in_order(api, server, sid, producer):
    wanted, unanswered, number, chance = 1_000, deque[int](), 0, random.Random(3)
    while number < wanted or unanswered:
        with Line(server.url, sid, producer=producer) as line:
            for name in unanswered:
                line.say(str(name), events=[{"type": "a.b", "data": {"n": name}}])
            for _ in range(chance.randrange(300)):
                if number < wanted and len(unanswered) < 64 and chance.random() < 0.7:
                    line.say(str(number), events=[{"type": "a.b", "data": {"n": number}}])
                    unanswered.append(number)
                    number += 1
                elif unanswered:
                    assert line.hear()[0]["id"] == str(unanswered.popleft())
            line.socket.socket.shutdown(socket.SHUT_RDWR)
    events = [event for event in api.page(sid, limit=10_000)["events"] if event["type"] == "a.b"]
    assert [event["data"]["n"] for event in events] == list(range(wanted))


def test_a_repeat_waits_for_the_first_that_is_under_way_and_nothing_overtakes_it(api, server, sid, producer):
    with Line(server.url, sid, producer=producer) as one, Line(server.url, sid, producer=producer) as two:
        with halted(server):
            one.say("1", "2", "3", "2")
            until(lambda: api.metric(WAITING) == 3)
            two.say("1", "2", "4", "3")
            two.say("1", events=[{"type": "other.event"}])
            time.sleep(0.3)
            assert api.metric(WAITING) == 3
        first, again = one.hear(4), two.hear(5)
    assert [answer["first_seq"] for answer in first] == [2, 3, 4, 3]
    assert [answer["id"] for answer in again] == ["1", "2", "4", "3", "1"]
    assert [answer["first_seq"] for answer in again[:4]] == [2, 3, 5, 4]
    assert slug(again[4]) == "idempotency-key-reused"
    assert len(api.types(sid)) == 5


def test_a_repeat_of_what_was_refused_is_tried_again_in_its_place(server, sid, producer):
    with Line(server.url, sid, producer=producer) as line:
        line.say("1", events=[{"type": "turn.completed"}])
        line.say("2", events=[{"type": "turn.started"}])
        line.say("1", events=[{"type": "turn.completed"}])
        one, two, three = line.hear(3)
    assert (slug(one), two["first_seq"], three["first_seq"]) == ("illegal-transition", 2, 4)


def test_an_id_is_the_idempotency_key_that_its_events_would_have(api, server, sid, producer):
    events = [{"type": "a.b", "data": {"text": "é", "n": 1.0}}, EVENT]
    body = json.dumps(events, ensure_ascii=False)
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"{producer}:1"}
    with Line(server.url, sid, producer=producer) as line:
        heard = line.ask(f'{{"id": "1", "expected_seq": 1, "events": {body}}}')
        post = api.post(f"/v1/sessions/{sid}/events", content=body.encode(), headers=headers)
        assert post.headers["Idempotency-Replayed"] == "true" and post.json()["first_seq"] == heard["first_seq"] == 2
        headers["Idempotency-Key"] = f"{producer}:2"
        post = api.post(f"/v1/sessions/{sid}/events", content=body.encode(), headers=headers)
        assert line.ask(f'{{"id": "2", "events": {body}}}')["first_seq"] == post.json()["first_seq"] == 4


def test_without_a_producer_an_id_is_only_told_back(api, server, sid):
    with Line(server.url, sid) as line:
        line.say("1", "1")
        assert [answer["first_seq"] for answer in line.hear(2)] == [2, 3]


def test_an_id_that_makes_no_key_is_refused(server, sid):
    with Line(server.url, sid, producer="x" * 190) as line:
        line.say("1" * 9, "1" * 10, "é")
        answers = line.hear(3)
    assert [answer.get("first_seq") for answer in answers] == [2, None, None]
    assert [answer["problem"]["errors"][0]["pointer"] for answer in answers[1:]] == ["/id", "/id"]


def test_a_repeat_after_the_end_of_the_session_hears_the_first_answer(server, sid, producer):
    with Line(server.url, sid, producer=producer) as line:
        line.say("1")
        line.say("2", events=[{"type": "session.completed"}])
        first = line.hear(2)
    with Line(server.url, sid, producer=producer) as line:
        line.say("1", "3")
        again = line.hear(2)
    assert again[0] == first[0] and slug(again[1]) == "illegal-transition"


# The end


def test_what_was_sent_before_a_goodbye_is_answered_before_it(api, server, sid):
    with Wire(server.url) as wire:
        wire.upgrade(PATH.format(sid))
        with halted(server):
            for name in range(100):
                wire.send(message(str(name)))
            wire.send((1000).to_bytes(2), kind=8)
            time.sleep(0.2)
        answers = [json.loads(wire.frame()[1])["first_seq"] for _ in range(100)]
        assert (answers, wire.closing()) == (list(range(2, 102)), 1000)
        with pytest.raises(EOFError):
            wire.frame()


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda wire: wire.send(message("2"), kind=2), 1003),
        (lambda wire: wire.send(b'{"id":"\xff"}'), 1007),
        (lambda wire: wire.socket.sendall(frame(b"x" * (4 * 1024 * 1024 + 70_000))[:100]), 1009),
        (lambda wire: wire.socket.sendall(b"\x81\x02{}"), 1002),
        (lambda wire: wire.send(b"{}", kind=0), 1002),
        (lambda wire: wire.send(b"{}", kind=3), 1002),
    ],
)
def test_what_is_no_message_closes_the_line_behind_the_answers(server, sid, wrong, code):
    with Wire(server.url) as wire:
        wire.upgrade(PATH.format(sid))
        with halted(server):
            wire.send(message("1"))
            wrong(wire)
        assert json.loads(wire.frame()[1])["first_seq"] == 2
        assert wire.closing() == code
        wire.socket.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            wire.frame()


def test_bytes_that_do_not_wait_for_the_handshake_end_the_connection(api, server, sid):
    with Wire(server.url) as wire:
        wire.socket.sendall(HANDSHAKE.format(path=PATH.format(sid)).encode() + frame(message("1")))
        with pytest.raises((EOFError, ConnectionResetError)):
            wire.head()
    assert api.types(sid) == ["session.started"]


def test_a_stop_answers_what_was_taken_and_says_goodbye(new_server):
    server = new_server()
    with server.client() as api:
        sid = api.create()
        with Line(server.url, sid) as line:
            with halted(server):
                line.say(*map(str, range(100)))
                until(lambda: api.metric(WAITING) == 64)
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
            answers = line.hear(64)
            with pytest.raises(ConnectionClosed) as closed:
                line.hear()
            assert goodbye(closed) == 1001
        assert server.stop() == 0
    assert [answer["first_seq"] for answer in answers] == list(range(2, 66))
    with new_server().client() as api:
        assert len(api.types(sid)) == 65


def test_a_stop_waits_for_no_line_whose_client_does_nothing(new_server):
    server = new_server()
    with server.client() as api, Wire(server.url) as idle:
        idle.upgrade(PATH.format(api.create()))
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 8
        assert idle.closing() == 1001


def test_lines_and_their_messages_are_counted(new_server):
    server = new_server()

    def count(method, status):
        wanted = f'layby_requests_total{{method="{method}",route="{PATH.format("{session_id}")}",status="{status}"}}'
        told = [line for line in api.get("/metrics").text.splitlines() if line.startswith(wanted)]
        return float(told[0].split()[-1]) if told else 0

    with server.client() as api:
        with Line(server.url, api.create()) as line:
            assert api.metric("layby_open_lines") == 1
            line.say("1", "2")
            line.say("3", events=[])
            line.hear(3)
            until(lambda: (count("GET", 101), count("MESSAGE", 201), count("MESSAGE", 422)) == (1, 2, 1))
        until(lambda: api.metric("layby_open_lines") == 0 and api.metric("layby_requests_in_flight") == 1)


def test_a_client_that_vanishes_leaves_nothing_behind(api, server, sid, eventually):
    with Wire(server.url) as wire:
        wire.upgrade(PATH.format(sid))
        with halted(server):
            for name in range(100):
                wire.send(message(str(name)))
            until(lambda: api.metric(WAITING) >= 64)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            wire.socket.close()
            time.sleep(0.2)
    eventually(lambda: api.metric("layby_request_body_bytes") == 0 and api.metric(WAITING) == 0)
    eventually(lambda: api.metric("layby_requests_in_flight") == 1)
    assert len(api.types(sid)) >= 65, "what was taken is carried out"


def anything(chance):
    """Bytes that are hardly frames, or hardly messages."""
    good = message(str(chance.random()))
    return chance.choice(
        (
            frame(good),
            frame(good, last=False),
            frame(good, kind=chance.randrange(16), last=chance.random() < 0.7),
            frame(good)[: chance.randrange(40)],
            frame(chance.randbytes(chance.randrange(300))),
            frame(b"[" * chance.randrange(5_000)),
            chance.randbytes(chance.randrange(1, 30)),
            b"\x81\xff" + chance.randbytes(12),
        )
    )


def test_whatever_is_said_the_server_lives_and_nothing_is_left_behind(new_server, eventually):
    server, chance = new_server(), random.Random(15)
    with server.client() as api:
        sid = api.create()
        for _ in range(150):
            with Wire(server.url) as wire:
                wire.upgrade(PATH.format(sid))
                with suppress(ConnectionError):
                    wire.socket.sendall(b"".join(anything(chance) for _ in range(chance.randrange(1, 6))))
                    if chance.random() < 0.8:
                        wire.socket.shutdown(socket.SHUT_WR)
                        while wire.socket.recv(65_536):
                            pass
        eventually(lambda: api.metric("layby_open_lines") == 0 and api.metric("layby_request_body_bytes") == 0)
        assert set(api.types(sid)) == {"session.started", "a.b"}
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text() and "layby.http" not in server.log.read_text()


# The door


@pytest.fixture(scope="module")
def keyed(tmp_path_factory, server_class):
    server = server_class(tmp_path_factory.mktemp("lines") / "data")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def doors(keyed):
    return Doors(keyed)


@pytest.fixture(scope="module")
def boss(doors):
    with doors.open("boss") as client:
        yield client


def test_a_line_needs_a_key_that_may_publish(keyed, doors, boss):
    sid = boss.create()
    code, body, headers = refused(keyed.url, sid)
    assert (code, body["type"].rpartition("/")[2]) == (401, "unauthorized") and headers["WWW-Authenticate"]
    with doors.open("reader", "read") as reader:
        key = reader.headers["Authorization"].split()[1]
        code, body, _ = refused(keyed.url, sid, key)
        assert (code, body["scope"]) == (403, "publish")
    with doors.open("publisher", "publish") as publisher:
        key = publisher.headers["Authorization"].split()[1]
        with Line(keyed.url, sid, key, origin="https://console.example") as line:
            line.say("1")
            assert line.hear()[0]["first_seq"] == 2
        assert refused(keyed.url, sid, key, headers={"Layby-Actor": "anna"})[0] == 403
    assert boss.page(sid)["events"][-1]["by"] == "publisher"


def test_to_another_tenant_there_is_no_session(keyed, doors, boss):
    sid = boss.create()
    with doors.open("stranger", tenant="bolt") as stranger:
        key = stranger.headers["Authorization"].split()[1]
        told = [refused(keyed.url, name, key) for name in (sid, "x" * len(sid))]
    assert [(code, body["detail"]) for code, body, _ in told] == [(404, "there is no session of this id")] * 2


def test_a_line_is_cut_when_its_key_goes(keyed, doors, boss):
    sid = boss.create()
    with doors.open("leaver") as leaver, Line(keyed.url, sid, leaver.headers["Authorization"].split()[1]) as line:
        line.say("1")
        line.hear()
        began = time.monotonic()
        threading.Thread(target=doors.revoke, args=("leaver",)).start()
        with pytest.raises(ConnectionClosed) as closed:
            line.hear()
        assert goodbye(closed) == 1008 and time.monotonic() - began < CUT_S + 2
    assert refused(keyed.url, sid, leaver.headers["Authorization"].split()[1])[0] == 401
    assert boss.types(sid) == ["session.started", "a.b"]


def test_a_key_that_is_gone_publishes_nothing_though_its_line_is_open_still(keyed, doors, boss):
    sid = boss.create()
    with doors.open("gone") as gone, Line(keyed.url, sid, gone.headers["Authorization"].split()[1]) as line:
        line.say("1")
        line.hear()
        doors.revoke("gone")
        until(lambda: gone.get("/v1/sessions").status_code == 401)
        with pytest.raises(ConnectionClosed):
            while True:
                assert slug(line.ask({"id": "2", "events": [EVENT]})) == "unauthorized"
    assert boss.types(sid) == ["session.started", "a.b"]
