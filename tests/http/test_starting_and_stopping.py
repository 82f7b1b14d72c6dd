"""A server says why it cannot start, and stops in good order whatever its clients do."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

START = Path(__file__).with_name("start.py")
TIMING = json.dumps({"retry_s": 0.3})
"""A store that is not there is given up sooner."""


def refusal(tmp_path, **settings):
    """The last line of what a server that cannot start says."""
    return refused(tmp_path, **settings)[-1]


def refused(tmp_path, **settings):
    """All lines of it."""
    arguments = [f"{name}={value}" for name, value in {"port": "0", "data_dir": tmp_path / "data", **settings}.items()]
    done = subprocess.run([sys.executable, str(START), TIMING, *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    return done.stderr.splitlines()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_open_server_stays_on_loopback(tmp_path, host):
    [line] = refused(tmp_path, host=host)  # nothing else, such as of a subscription that was given up while it began
    assert line.startswith("layby: ") and "loopback" in line and "layby keys create" in line


def test_a_port_in_use_is_named(tmp_path, server):
    line = refusal(tmp_path, port=urlsplit(server.url).port)
    assert "in use" in line and str(urlsplit(server.url).port) in line


def test_a_redis_that_is_not_there_is_one_line(tmp_path):
    told = refusal(tmp_path, redis_url="redis://:secret@127.0.0.1:1")
    assert "does not answer" in told and "secret" not in told


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis+cluster://me:secret@127.0.0.1:1,127.0.0.1:2", "does not answer"),
        ("redis+sentinel://me:secret@127.0.0.1:1/main", "does not answer"),
        ("redis+sentinel://me:secret@127.0.0.1:1", "lacks the master's name"),
        ("redis+cluster://me:secret@127.0.0.1:x", "a port in redis+cluster:// is no number"),
    ],
)
def test_a_cluster_or_sentinel_that_cannot_be_used_is_one_line(tmp_path, url, words):
    told = refusal(tmp_path, redis_url=url)
    assert words in told and "secret" not in told


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("unix://me:secret@{}", "refuses the user or the password"),
        ("unix://{}?db=99", "DB index is out of range; check --redis-url"),
        ("redis://:secret@127.0.0.1:port", "a port is a number from 1 to 65535"),
        ("redis://:secret@127.0.0.1?foo=bar", "has no option foo"),
    ],
)
def test_a_redis_that_cannot_be_used_is_one_line(tmp_path, server, url, words):
    told = refusal(tmp_path, redis_url=url.format(server.data_dir / "engine.sock"))
    assert told.startswith("layby: ") and words in told and "secret" not in told


def test_data_in_use_is_one_line(tmp_path, server):
    assert "in use" in refusal(tmp_path, data_dir=server.data_dir)


def test_it_greets_with_its_address(new_server):
    server = new_server(host="localhost")
    assert "open development server" in server.greeting and "loopback" in server.greeting
    with server.client() as api:
        assert api.get("/healthz").status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_cuts_streams_and_answers_what_waits(new_server, number):
    server = new_server(heartbeat_s=30)
    rest, answers = list[str](), list[dict[str, object]]()
    with server.client() as api, server.client() as other, server.client() as third:
        sid = api.create()
        iid = api.ask(sid)

        def hold():
            answers.append(other.get(f"/v1/sessions/{sid}/calls/{iid}", params={"wait_ms": 60_000}).json())

        with api.follow(sid) as lines:
            next(lines)
            holding = threading.Thread(target=hold)
            holding.start()
            while third.metric("layby_requests_in_flight") < 3:
                pass
            began = time.monotonic()
            server.process.send_signal(number)
            rest = list(lines)
            server.process.send_signal(number)
            assert server.stop() == 0
            assert time.monotonic() - began < 5
        holding.join()
    assert [json.loads(line)["type"] for line in rest] == ["input.requested", "session.waiting"], "and no end"
    assert answers[0]["status"] == "PENDING_APPROVAL"


def test_a_stop_waits_for_no_client_that_does_not_read(new_server):
    server = new_server(heartbeat_s=0.05)
    address = urlsplit(server.url)
    with server.client() as api:
        sid = api.create()
        for _ in range(5):
            api.publish(sid, *[{"type": "a.b", "data": {"x": "y" * 200_000}}] * 20)
        deaf = list[socket.socket]()
        for _ in range(20):
            connection = socket.create_connection((address.hostname, address.port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET /v1/sessions/{sid}/stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            deaf.append(connection)
        while api.metric("layby_open_tails") < 20:
            pass
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 9
        for connection in deaf:
            connection.close()


def test_what_was_answered_survives_a_stop(new_server):
    server = new_server()
    with server.client() as api:
        sid = api.create()
        assert api.publish(sid, {"type": "a.b"}).json()["durability"] == "fsync"
    assert server.stop() == 0
    with new_server().client() as api:
        assert api.types(sid) == ["session.started", "a.b"]


def test_a_stop_before_it_runs_is_a_stop(tmp_path):
    arguments = [sys.executable, str(START), TIMING, "port=0", f"data_dir={tmp_path / 'data'}"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "data").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0, process.communicate()
