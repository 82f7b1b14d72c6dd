"""Connections of clients that are slow, or speak no HTTP: on a clock and a transport of the test's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from api.transport import http_protocol
from api.transport.http_protocol import PATIENCE_S, PIPELINED, SLOWEST, HttpProtocol
from api.transport.slow_clients import UNREAD_BYTES, UNREAD_RATE, UNREAD_S
from api.transport.websocket_handshake import wishes
from tests.unit.connections import Loop, Transport

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = HEAD + b"Content-Length: 9999999\r\n\r\n"
SHORT = HEAD + b"Content-Length: 1\r\n\r\nx"


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def line(loop: Loop) -> HttpProtocol:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    config = uvicorn.Config(app, interface="asgi3", ws="none", lifespan="off", log_config=None, timeout_keep_alive=75)
    config.load()
    made = HttpProtocol(config, ServerState(), {}, loop)
    made.connection_made(Transport())
    return made


def transport_of(line: HttpProtocol) -> Transport:
    assert isinstance(line.transport, Transport)
    return line.transport


def refused(line: HttpProtocol, status: int) -> dict[str, Any]:
    assert transport_of(line).closed
    head, _, body = transport_of(line).sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status) and b"connection: close" in head
    assert json.loads(body)["status"] == status
    return json.loads(body)


def answered(line: HttpProtocol) -> None:
    """The application has answered, as far as the connection can tell."""
    line.cycle.response_started = line.cycle.response_complete = True
    line.on_response_complete()


def test_a_head_that_drips_is_refused_in_time(line, loop):
    for byte in HEAD[:20]:
        assert not line.transport.closed
        line.data_received(bytes([byte]))
        loop.pass_(PATIENCE_S / 21)
    loop.pass_(1)
    assert refused(line, 408)["type"].endswith("/request-timeout")


def test_a_connection_on_which_nothing_comes_is_closed_without_a_word(line, loop):
    loop.pass_(74)
    assert not line.transport.closed
    loop.pass_(2)
    assert line.transport.closed and line.transport.sent == b""


@pytest.mark.parametrize("before", [b"", SHORT])
def test_empty_lines_keep_no_connection_open(line, loop, before):
    if before:
        line.data_received(before)
        answered(line)
    line.data_received(b"\r\n")
    loop.pass_(74)
    assert not line.transport.closed
    loop.pass_(2)
    assert line.transport.closed and line.transport.sent == b""


def test_an_empty_line_ends_no_answer_that_is_under_way(line, loop):
    line.data_received(SHORT + b"\r\n")
    loop.pass_(1_000)
    assert not line.transport.closed


def test_the_time_begins_with_the_request_and_not_with_the_connection(line, loop):
    loop.pass_(70)
    line.data_received(HEAD)
    loop.pass_(PATIENCE_S - 1)
    assert not line.transport.closed
    line.data_received(b"Content-Length: 0\r\n\r\n")
    loop.pass_(1_000)
    assert not line.transport.closed and loop.started == 1


@pytest.mark.parametrize("head", [LONG, CHUNKED])
def test_a_body_that_stalls_is_refused(line, loop, head):
    line.data_received(head)
    loop.pass_(PATIENCE_S + 1)
    refused(line, 408)


def test_a_body_at_one_byte_a_second_is_refused(line, loop):
    line.data_received(LONG)
    for _ in range(int(PATIENCE_S) + 2):
        if not line.transport.closed:
            line.data_received(b"x")
        loop.pass_(1)
    refused(line, 408)


def test_a_body_that_keeps_up_the_rate_is_taken(line, loop):
    line.data_received(LONG)
    for _ in range(100):
        line.data_received(b"x" * SLOWEST)
        line.cycle.body.clear()
        line.flow.resume_reading()  # as the application does by receiving
        loop.pass_(1)
    assert not line.transport.closed
    loop.pass_(PATIENCE_S + 1)
    refused(line, 408)


def test_a_client_is_not_blamed_while_it_is_we_who_do_not_read(line, loop):
    line.data_received(LONG + b"x" * 100_000)
    assert line.flow.read_paused
    loop.pass_(10 * PATIENCE_S)
    assert not line.transport.closed
    line.flow.resume_reading()
    loop.pass_(2 * PATIENCE_S)
    refused(line, 408)


def test_what_follows_an_answer_that_came_early_is_not_waited_for(line, loop):
    line.data_received(LONG)
    answered(line)
    loop.pass_(PATIENCE_S + 1)
    assert line.transport.closed and line.transport.sent == b"", "a second answer would belong to nothing"


def test_garbage_behind_a_request_that_is_being_answered_is_not_told_as_its_answer(line, loop):
    line.data_received(SHORT)
    line.data_received(b"\x00\x00\x00")
    assert line.transport.closed and line.transport.sent == b""


@pytest.mark.parametrize("before", [b"", SHORT])
def test_a_target_that_is_none_is_refused(line, before):
    """The parser takes it, and taking it apart fails, before anything is known of the request."""
    line.data_received(before)
    line.data_received(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n")
    if before:
        assert line.transport.closed and line.transport.sent == b"", "the one before is being answered"
    else:
        refused(line, 400)


def test_whoever_is_answering_hears_that_the_connection_is_gone(line):
    """Also behind others, and at once: else it writes to what is closed, which is logged as a fault."""
    line.data_received(SHORT)
    first = line.cycle
    line.data_received(SHORT)
    assert line.cycle is not first
    line.data_received(b"\x00garbage")
    assert line.transport.closed and first.disconnected and first.message_event.is_set()


def test_a_connection_that_is_lost_is_told_to_whoever_is_answering(line):
    line.data_received(SHORT + SHORT)
    first = line._running
    line.connection_lost(None)
    assert first.disconnected and first is not line.cycle


def test_garbage_inside_a_body_is_told(line):
    line.data_received(CHUNKED + b"zz\r\n")
    refused(line, 400)


def test_garbage_in_a_body_that_waits_behind_another_request_is_not_told(line):
    line.data_received(SHORT + CHUNKED + b"zz\r\n")
    assert line.transport.closed and line.transport.sent == b""


def test_garbage_after_an_answer_is_told(line):
    line.data_received(SHORT)
    answered(line)
    line.data_received(b"garbage\r\n\r\n")
    refused(line, 400)


def test_a_head_too_large_is_refused_however_it_comes(line):
    line.data_received(HEAD)
    for _ in range(200):
        if not line.transport.closed:
            line.data_received(b"X: " + b"y" * 1_000 + b"\r\n")
    refused(line, 400)


@pytest.mark.parametrize("fields", [b"X: " + b"y" * 70_000, (b"X: " + b"y" * 1_000 + b"\r\n") * 70])
def test_a_head_too_large_that_comes_at_once_is_refused_too(line, fields):
    line.data_received(HEAD + fields + b"\r\n\r\n")
    refused(line, 400)


def test_a_head_that_is_just_not_too_large_is_taken_piece_by_piece(line):
    line.data_received(HEAD)
    for _ in range(60):
        line.data_received(b"X: " + b"y" * 1_000 + b"\r\n")
    line.data_received(b"\r\n")
    assert not line.transport.closed


def test_a_target_too_large_is_refused(line):
    line.data_received(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    refused(line, 400)


@pytest.mark.parametrize("behind", [b"", HEAD, HEAD[:1]])
def test_a_body_that_comes_with_its_head_does_not_count_as_one(line, behind):
    line.data_received(HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000 + behind)
    assert not line.transport.closed


def test_requests_do_not_queue_up_without_end(line):
    line.data_received(SHORT * (PIPELINED + 1))
    assert not line.transport.closed
    line.data_received(SHORT)
    assert line.transport.closed


def take(line: HttpProtocol, loop: Loop, bytes_a_second: float, seconds: float) -> None:
    """The client reads so much of what is under way."""
    for _ in range(int(seconds)):
        transport_of(line).unread = max(0, transport_of(line).unread - int(bytes_a_second))
        loop.pass_(1)


def test_an_answer_that_is_not_taken_is_ended(line, loop):
    line.transport.unread = 4_000_000
    line.pause_writing()
    take(line, loop, 1, UNREAD_S + 1)
    assert line.transport.aborted


def test_an_answer_that_is_taken_slowly_is_not(line, loop):
    line.data_received(SHORT)
    line.transport.unread = 4_000_000
    line.pause_writing()
    take(line, loop, 2 * UNREAD_RATE, 10 * UNREAD_S)
    assert not line.transport.closed
    line.resume_writing()
    loop.pass_(10 * UNREAD_S)
    assert not line.transport.closed


def test_a_stream_may_be_taken_as_slowly_as_its_reader_likes(line, loop):
    line.data_received(SHORT)
    line.transport.unread = UNREAD_BYTES
    line.pause_writing()
    loop.pass_(10 * UNREAD_S)
    assert not line.transport.closed


def test_no_timer_outlives_its_connection(line, loop):
    line.data_received(HEAD)
    line.transport.unread = 4_000_000
    line.pause_writing()
    line.connection_lost(None)
    assert all(timer.cancelled for timer in loop.timers)


def test_a_request_that_comes_at_once_costs_no_timer(line, loop):
    line.data_received(SHORT)
    assert all(timer.cancelled for timer in loop.timers)
    assert http_protocol.PATIENCE_S < 75


WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 2\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_wish_for_another_protocol_is_passed_over(line, loop, framing, size):
    sent = HEAD + WISH + framing
    for start in range(0, len(sent), size):
        line.data_received(sent[start : start + size])
    assert (loop.started, line.cycle.body, line.cycle.more_body) == (1, b"{}", False)
    assert (b"http2-settings", b"AAA") in line.cycle.scope["headers"] and line.cycle.scope["path"] == "/"
    answered(line)
    line.data_received(HEAD + b"Content-Length: 1\r\n\r\nx")
    assert (loop.started, line.cycle.body) == (2, b"x"), "what follows is a request of its own"
    assert line.transport.sent == b"" and not line.transport.closed


def test_many_wishes_at_once_wait_in_a_row(line, loop):
    line.data_received((HEAD + WISH + b"Content-Length: 1\r\n\r\nx") * 50)
    assert (loop.started, len(line.pipeline)) == (1, 49)
    assert all(cycle.body == b"x" for cycle, _ in line.pipeline)


WEBSOCKET = b"Host: x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n"


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"GET / HTTP/1.1\r\n" + WEBSOCKET, True),
        (b"GET / HTTP/1.1\r\n" + WEBSOCKET.replace(b"WebSocket", b"h2c, websocket"), True),
        (b"GET / HTTP/1.1\r\n" + WEBSOCKET.replace(b"WebSocket", b"h2c"), False),
        (b"GET / HTTP/1.1\r\n" + WEBSOCKET.replace(b"Connection: Upgrade\r\n", b""), False),
        (b"GET / HTTP/1.0\r\n" + WEBSOCKET, False),
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n" + WEBSOCKET, False),
        (b"GET / HTTP/1.1\r\nContent-Length: 0\r\n" + WEBSOCKET, True),
    ],
)
def test_the_wish_for_a_websocket_is_told_to_the_application(line, loop, head, told):
    line.data_received(head + b"\r\n")
    assert wishes(line.cycle.scope) == told
    assert (loop.started, line.cycle.more_body) == (1, False)
    if b"HTTP/1.1" in head:
        answered(line)
        line.data_received(HEAD + b"Content-Length: 1\r\n\r\nx")
        assert loop.started == 2 and not wishes(line.cycle.scope)


def test_nothing_is_connected_to(line, loop):
    line.data_received(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert refused(line, 400) and loop.started == 0
