"""Pages of events end by count and by bytes, and together they cover everything once."""

from __future__ import annotations

import contextlib
import json
import socket
from urllib.parse import urlsplit

import pytest

BIG = 250_000
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def long_session(server):
    """30 large events among many small ones."""
    with server.client() as api:
        sid = api.create()
        for n in range(30):
            large = {"type": "large.event", "data": {"n": n, "x": "y" * BIG}}
            assert api.publish(sid, large, *[{"type": "small.event"}] * 9).status_code == 201
        return sid


def walk(api, sid, **params):
    """All pages: how many lines each has, and every seq in the order it came."""
    counts, seqs, following = list[int](), list[int](), params.pop("start", None)
    while True:
        given = {**params, **({} if following is None else {"from": following})}
        page = api.page(sid, **given)
        counts.append(len(page["events"]))
        seqs += [event["seq"] for event in page["events"]]
        if (following := page["next_from"]) is None:
            return counts, seqs


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_large_events_end_a_page_early(api, long_session, order):
    counts, seqs = walk(api, long_session, order=order, limit=10_000)
    assert seqs == (list(range(1, 302)) if order == "asc" else list(range(301, 0, -1)))
    assert len(counts) == 2, "about 4 MiB a page"


def test_no_page_is_larger_than_its_bound(api, long_session):
    answer = api.get(f"/v1/sessions/{long_session}/events", params={"limit": 10_000})
    assert 3 * MIB < len(answer.content) < 4.2 * MIB
    assert answer.headers["layby-last-seq"] == "301"
    last = json.loads(answer.text.rstrip("\n").rsplit("\n", 1)[1])["seq"]
    assert answer.headers["layby-next-from"] == str(last + 1)


def test_an_event_larger_than_others_is_a_page_of_its_own_if_need_be(api):
    sid = api.create()
    iid = api.ask(sid)
    api.decide(sid, iid)
    base = f"/v1/sessions/{sid}/calls/{iid}"
    assert api.post(f"{base}/result", json={"result": "z" * 260_000}).status_code == 200
    assert [event["type"] for event in api.page(sid, **{"from": 4})["events"]][-1] == "action.result"


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 7, 400])
def test_a_filter_changes_no_seq_and_misses_nothing(api, long_session, order, limit):
    counts, seqs = walk(api, long_session, order=order, limit=limit, types="large.*")
    wanted = [2 + 10 * n for n in range(30)]
    assert seqs == (wanted if order == "asc" else wanted[::-1])
    assert max(counts) <= limit


def test_a_page_that_finds_nothing_still_leads_on(api):
    sid = api.create()
    for _ in range(21):
        assert api.publish(sid, *[{"type": "a.b"}] * 1000).status_code == 201
    counts, seqs = walk(api, sid, types="session.waiting")
    assert seqs == [] and counts == [0, 0], "20,000 events are looked at for one page"


def test_reading_down_from_a_place(api, long_session):
    page = api.page(long_session, order="desc", limit=3, **{"from": 5})
    assert [event["seq"] for event in page["events"]] == [5, 4, 3] and page["next_from"] == 2
    page = api.page(long_session, order="desc", limit=3, **{"from": 9_999})
    assert [event["seq"] for event in page["events"]] == [301, 300, 299]
    assert api.page(long_session, order="desc", limit=1, **{"from": 1})["next_from"] is None


@pytest.mark.parametrize("beyond", [302, 10**15, 2**53, "9" * 4_000])
def test_beyond_the_end_there_is_nothing_yet(api, long_session, beyond):
    answer = api.get(f"/v1/sessions/{long_session}/events", params={"from": beyond})
    assert (answer.content, answer.headers["layby-last-seq"]) == (b"", "301")
    assert "layby-next-from" not in answer.headers


def test_lines_and_json_hold_the_same_bytes(api, long_session):
    lines = api.get(f"/v1/sessions/{long_session}/events", params={"limit": 3}).text
    both = api.get(f"/v1/sessions/{long_session}/events", params={"limit": 3}, headers={"Accept": "application/json"})
    assert both.text == '{"events":[' + lines.rstrip("\n").replace("\n", ",") + '],"next_from":4,"last_seq":301}'


def test_a_page_that_nobody_reads_holds_nothing_but_itself(server, api):
    """Readers that do not read: the engine is asked once for each, and answers others meanwhile."""
    sid = api.create()
    for _ in range(2):
        api.publish(sid, *[{"type": "a.b", "data": {"x": "y" * 200_000}}] * 15)
    address = urlsplit(server.url)
    request = f"GET /v1/sessions/{sid}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stack.enter_context(connection)
            connection.connect((address.hostname, address.port))
            connection.sendall(request)
            assert connection.recv(16).startswith(b"HTTP/1.1 200")
        for _ in range(20):
            assert api.publish(sid, {"type": "a.b"}).status_code == 201
            assert len(api.page(sid, limit=5)["events"]) == 5


@pytest.mark.parametrize("at", [2**53, 10**30, "9" * 4_000])
def test_a_point_beyond_every_end_is_no_point(api, long_session, problem, at):
    problem(api.get(f"/v1/sessions/{long_session}", params={"at": str(at)}), 404, "no-such-point")
