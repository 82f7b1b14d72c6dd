"""A WebSocket, on a clock and a transport of the test's own: when it reads, what it counts, and how it ends."""

from __future__ import annotations

import pytest

from api.http.body_budget import BodyBudget
from api.transport.http_protocol import PATIENCE_S, SLOWEST
from api.transport.slow_clients import UNREAD_S
from api.websocket import connection
from api.websocket.connection import DEAD_S, GOODBYE_S, LOOK_EVERY_S, LOOKS, SILENT_S, WebSocket
from api.websocket.frames import SLICE_BYTES, FrameReader
from proofs.line import CLOSE, CONTINUED, PING, PONG, frame
from tests.unit.connections import Loop, Transport

MOST = 1_000_000


class Owner:
    """Takes so many messages."""

    def __init__(self) -> None:
        self.room, self.taken, self.stirred = 1_000_000, list[bytes](), 0

    @property
    def ready(self) -> bool:
        return self.room > 0

    def take(self, data: bytes) -> None:
        self.room -= 1
        self.taken.append(data)

    def stir(self) -> None:
        self.stirred += 1


@pytest.fixture
def budget():
    return BodyBudget(10 * MOST)


@pytest.fixture
def scope():
    return {}


@pytest.fixture
def owner():
    return Owner()


@pytest.fixture
def loop(monkeypatch):
    made = Loop()
    monkeypatch.setattr(connection.asyncio, "get_running_loop", lambda: made)
    return made


@pytest.fixture
def line(loop, owner, budget, scope):
    made = WebSocket(FrameReader(MOST, budget, scope), owner)
    connections = set()
    made.begin(Transport(), connections)
    assert connections == {made}
    return made


def goodbye(line):
    """The code of the goodbye that was sent last."""
    tail = line.transport.sent[line.transport.sent.rindex(b"\x88") :]
    return int.from_bytes(tail[2:4])


def messages(*texts):
    return b"".join(map(frame, texts))


# In


@pytest.mark.parametrize("size", [1, 3, 50, 10_000])
def test_messages_are_taken_however_they_arrive(line, owner, size):
    texts = [b"", b"one", "zwei é".encode(), b"x" * 5_000]
    data = messages(*texts)
    for at in range(0, len(data), size):
        line.data_received(data[at : at + size])
    assert owner.taken == texts


def test_what_is_not_taken_is_not_read(line, owner):
    owner.room = 2
    line.data_received(messages(b"1", b"2", b"3", b"4"))
    assert (owner.taken, line.transport.reading) == ([b"1", b"2"], False)
    owner.room = 1
    line.advance()
    assert (owner.taken, line.transport.reading) == ([b"1", b"2", b"3"], False)
    owner.room = 2
    line.advance()
    assert (owner.taken, line.transport.reading) == ([b"1", b"2", b"3", b"4"], True)


def test_while_nothing_is_taken_little_is_looked_at(line, owner):
    owner.room = 1
    line.data_received(messages(*[b""] * 40_000))
    assert len(line._inbox.messages) <= SLICE_BYTES / 6


def test_frames_of_which_no_message_comes_are_taken_in_turns(line, owner, loop):
    """A read may hold tens of thousands of them: taken at once they would hold up all other connections."""
    nothing = frame(b"", last=False) + frame(b"", CONTINUED, last=False) * (2 * LOOKS)
    line.data_received(nothing + frame(b"end", CONTINUED) + messages(b"next"))
    assert (owner.taken, line.transport.reading) == ([], False)
    loop.pass_(0)
    assert (owner.taken, line.transport.reading) == ([b"end", b"next"], True)


def test_what_comes_after_our_goodbye_is_passed_over_in_turns(line, loop):
    line.end(1008, "why")
    line.close()
    line.data_received(frame(b"", last=False) + frame(b"", CONTINUED, last=False) * 40_000 + frame(b"", CLOSE))
    assert (line.transport.closed, line.transport.reading) == (False, False)
    loop.pass_(0)
    assert line.transport.closed


def test_what_a_lost_peer_has_sent_is_not_taken(line, owner):
    owner.room = 1
    line.data_received(messages(b"1", b"2"))
    line.connection_lost(None)
    owner.room = 1
    line.advance()
    assert owner.taken == [b"1"]


def test_a_peer_that_does_not_read_is_not_read(line, owner):
    line.pause_writing()
    line.data_received(messages(b"1"))
    assert (owner.taken, line.transport.reading) == ([], False)
    line.resume_writing()
    assert (owner.taken, line.transport.reading) == ([b"1"], True)


def test_pings_are_answered_as_long_as_the_answers_are_taken(line):
    line.data_received(frame(b"a", PING))
    assert line.transport.sent == b"\x8a\x01a"
    line.pause_writing()
    line.data_received(frame(b"b", PING) * 1_000)
    assert line.transport.sent == b"\x8a\x01a"


def test_bytes_count_from_their_arrival_until_they_are_given_back(line, owner, budget, scope):
    line.data_received(messages(b"x" * 100, b"y" * 50) + frame(b"z" * 3_000)[:1_000])
    assert budget.held == 150 + 992
    budget.give(scope, 150)
    line.data_received(frame(b"z" * 3_000)[1_000:])
    assert (budget.held, len(owner.taken)) == (3_000, 3)
    budget.release(scope)
    assert budget.held == 0


def test_the_parts_of_a_message_count_too(line, budget):
    line.data_received(frame(b"x" * 100, last=False) + frame(b"y" * 100, kind=0, last=False) + frame(b"", PING))
    assert budget.held == 200
    line.data_received(frame(b"", kind=0))
    assert (line._owner.taken, budget.held) == ([b"x" * 100 + b"y" * 100], 200)


def test_beyond_the_budget_the_line_ends(line, owner, budget):
    budget.limit = 10_000
    line.data_received(messages(b"1") + frame(b"x" * 20_000))
    assert (owner.taken, line.over, line.transport.reading) == ([b"1"], True, False)
    line.close()
    assert goodbye(line) == 1013


@pytest.mark.parametrize("size", [0, 1, 4, 5, 125, 126, 127, 65_535, 65_536, 100_000])
def test_what_is_masked_is_unmasked(line, owner, size):
    text = (b"abcdefg" * 20_000)[:size]
    line.data_received(frame(text, mask=b"\x01\xfe\x80\x7f") * 2 + frame(b"x", mask=b"\xff\0\xff\0"))
    assert owner.taken == [text, text, b"x"]


def test_a_head_that_comes_in_halves_is_not_taken_for_another(line, owner):
    data = frame(b"one", mask=b"\x81\x83\x81\x80") + frame(b"two", mask=b"\x81\x80\x81\x80")
    for at in range(0, len(data), 2):
        line.data_received(data[at : at + 2])
    assert owner.taken == [b"one", b"two"]


def test_no_message_stands_within_another(line, owner):
    line.data_received(frame(b"", last=False) + frame(b"other") + frame(b"end", kind=0))
    line.close()
    assert owner.taken == [] and goodbye(line) == 1002


@pytest.mark.parametrize(
    ("fault", "code"), [(frame(b"x", kind=2), 1003), (frame(b"\xff"), 1007), (frame(b"x" * (MOST + 1))[:14], 1009)]
)
@pytest.mark.parametrize("behind", [frame((1000).to_bytes(2), CLOSE), frame(b"", kind=3), frame(b"b", PING)])
def test_what_comes_behind_a_fault_does_not_count(line, owner, fault, code, behind):
    line.data_received(messages(b"1") + frame(b"a", PING) + fault + behind)
    assert (owner.taken, line.transport.sent) == ([b"1"], b"\x8a\x01a")
    line.close()
    assert goodbye(line) == code


# Out


@pytest.mark.parametrize(("size", "head"), [(0, b"\x81\x00"), (125, b"\x81\x7d"), (126, b"\x81\x7e\x00\x7e")])
def test_messages_leave_as_one_frame_each(line, size, head):
    line.send([b"x" * size, b"y"])
    assert line.transport.sent == head + b"x" * size + b"\x81\x01y"


def test_large_messages_leave_too(line):
    line.send([b"x" * 70_000])
    assert line.transport.sent[:10] == b"\x81\x7f" + (70_000).to_bytes(8) and len(line.transport.sent) == 70_010


def test_after_the_goodbye_nothing_is_sent(line):
    line.close()
    sent = line.transport.sent
    line.send([b"x"])
    line.close()
    assert line.transport.sent == sent


# The end


def test_a_goodbye_is_answered_when_its_owner_says_so(line, owner):
    owner.room = 1
    line.data_received(messages(b"1", b"2") + frame((1000).to_bytes(2), CLOSE))
    assert not line.over and line.transport.sent == b""
    owner.room = 2
    line.advance()
    assert line.over and owner.stirred and line.transport.sent == b""
    line.send([b"answer"])
    line.close()
    assert line.transport.sent == b"\x81\x06answer\x88\x02\x03\xe8" and line.transport.closed


def test_after_our_goodbye_what_still_comes_is_passed_over_until_theirs(line, owner):
    line.end(1001, "the server stops")
    line.close()
    assert goodbye(line) == 1001 and line.transport.reading and not line.transport.closed
    line.data_received(messages(b"1", b"2"))
    assert owner.taken == [] and not line.transport.closed
    line.data_received(frame((1001).to_bytes(2), CLOSE))
    assert line.transport.closed and not line.transport.aborted


def test_what_is_passed_over_counts_until_the_connection_is_lost(line, budget):
    line.close()
    line.data_received(frame(b"x" * 3_000)[:2_008])
    assert (budget.held, line.transport.closed) == (2_000, False)
    line.data_received(b"x" * 1_000)
    assert budget.held == 0
    line.data_received(frame(b"x" * 3_000)[:1_008])
    line.connection_lost(None)
    assert budget.held == 0


def test_what_is_passed_over_ends_the_connection_beyond_the_budget(line, loop, budget):
    budget.limit = 5_000
    line.close()
    line.data_received(frame(b"x" * 20_000))
    loop.pass_(0)
    assert line.transport.closed


def test_a_goodbye_is_heard_though_the_last_answers_lag(line):
    line.end(1008, "the key opens nothing any more")
    line.close()
    line.pause_writing()
    line.advance()
    assert line.transport.reading
    line.data_received(frame((1008).to_bytes(2), CLOSE))
    assert line.transport.closed and not line.transport.aborted


@pytest.mark.parametrize("wrong", [frame(b"x", kind=2), frame(b"\xff"), frame(b"x" * (MOST + 1))[:20], b"\xff" * 20])
def test_whoever_never_hangs_up_is_hung_up_on(line, loop, wrong):
    line.data_received(wrong)
    assert line.over
    line.close()
    line.data_received(b"whatever")
    loop.pass_(GOODBYE_S - 0.1)
    assert not line.transport.aborted
    loop.pass_(0.2)
    assert line.transport.aborted


def test_what_has_arrived_is_dropped_where_the_owner_ends_it(line, owner):
    owner.room = 1
    line.data_received(messages(b"1", b"2", b"3"))
    line.end(1008, "the key opens nothing any more")
    owner.room = 5
    line.advance()
    assert (owner.taken, line.over) == ([b"1"], True)


def test_a_connection_that_is_lost_is_told(line, owner, loop):
    line.connection_lost(None)
    assert line.lost and line.over and owner.stirred and line._connections == set()
    line.close()
    assert line.transport.sent == b"" and all(timer.cancelled for timer in loop.timers)


# Peers that are slow, or gone


def test_a_peer_that_answers_pings_may_be_idle_for_ever(line, loop):
    for _ in range(100):
        loop.pass_(SILENT_S + LOOK_EVERY_S)
        assert line.transport.sent.endswith(b"\x89\x00")
        line.data_received(frame(b"", PONG))
    assert not line.transport.closed


def test_a_peer_that_answers_no_ping_is_gone(line, loop):
    loop.pass_(DEAD_S - 1)
    assert not line.transport.closed
    loop.pass_(LOOK_EVERY_S + 1)
    assert line.transport.aborted


def test_a_peer_is_not_gone_while_it_is_we_who_do_not_read(line, owner, loop):
    owner.room = 1
    line.data_received(messages(b"1", b"2"))
    loop.pass_(10 * DEAD_S)
    assert not line.transport.closed and line.transport.sent == b""


def test_a_message_that_stalls_ends_the_line(line, owner, loop):
    line.data_received(messages(b"1") + frame(b"x" * 100)[:50])
    for _ in range(int(PATIENCE_S / LOOK_EVERY_S) + 2):
        loop.pass_(LOOK_EVERY_S)
    assert line.over and owner.taken == [b"1"]
    line.close()
    assert goodbye(line) == 1008


def test_a_large_message_may_take_as_long_as_a_large_request(line, owner, loop):
    data = frame(b"x" * 10 * SLOWEST * int(PATIENCE_S))
    line._inbox._frames.max_message_size = None
    for at in range(0, len(data), 2 * SLOWEST):
        line.data_received(data[at : at + 2 * SLOWEST])
        loop.pass_(1)
    assert not line.over and len(owner.taken) == 1


def test_an_answer_that_is_not_taken_ends_the_connection(line, loop):
    line.transport.unread = 70_000
    line.pause_writing()
    loop.pass_(UNREAD_S - 1)
    assert not line.transport.closed
    loop.pass_(2)
    assert line.transport.aborted
