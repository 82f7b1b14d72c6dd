"""`layby rebuild`: beside a running server, without one, and where it cannot."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from eventstore.embedded.engine import DataDirectory
from eventstore.redis_keys import STORE
from projections.redis_keys import REBUILDING
from tests.http.conftest import Api, Server
from tests.scripts.engines import free_port

NewServer = Callable[..., Server]
MAIN = [sys.executable, "-c", "from cli.main import main; main()", "rebuild"]


def rebuild(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MAIN, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def fill(api: Api, count: int = 60) -> None:
    for n in range(count):
        api.create(session_id=f"s{n}", agent="ann")
        api.ask(f"s{n}", f"c{n}", expires_in_ms=3_600_000 + n)
        if n % 3 == 0:
            api.decide(f"s{n}", f"c{n}")


def shown(api: Api) -> list[bytes]:
    paths = ["/v1/sessions?limit=1000", "/v1/calls?limit=1000", "/v1/sessions/s1", "/v1/sessions/s2/calls"]
    return [api.get(path).content for path in paths]


def test_readers_notice_nothing_of_a_rebuild_beside_a_running_server(new_server: NewServer):
    server = new_server()
    with server.client() as api:
        fill(api)
        before = shown(api)
        running = subprocess.Popen([*MAIN, "--data-dir", str(server.data_dir)], stdout=subprocess.PIPE, text=True)
        reads = 0
        while running.poll() is None:
            assert shown(api) == before
            reads += 1
        out, _ = running.communicate(timeout=30)
        assert reads
        assert running.returncode == 0
        assert out.startswith("rebuilt 60 sessions in 64 partitions (")
        assert shown(api) == before
        api.decide("s1", "c1")
        assert api.get("/v1/calls").json()["total"] == 39


def test_it_mends_what_was_spoilt_with_or_without_a_server(new_server: NewServer):
    server = new_server()
    with server.client() as api:
        fill(api, 10)
        before = shown(api)
        _spoil(server)
        assert api.get("/v1/calls").json()["total"] == 0
        assert rebuild("--data-dir", server.data_dir).returncode == 0
        assert shown(api) == before
        _spoil(server)
    assert server.stop() == 0
    done = rebuild("--data-dir", server.data_dir)
    assert (done.returncode, done.stderr) == (0, "rebuilding 10 sessions\n")
    with new_server().client() as api:
        assert shown(api) == before


def _spoil(server: Server) -> None:
    """Somebody deletes every index, and nothing else."""
    with _engine(server) as redis:
        for key in redis.scan_iter("layby:{p*}:proj:*:inbox:*", count=10_000):
            redis.delete(key)


def _engine(server: Server) -> Redis:
    path = DataDirectory(server.data_dir).socket()
    assert path is not None
    return Redis(unix_socket_path=str(path))


def test_a_second_one_is_refused_in_one_line(new_server: NewServer):
    server = new_server()
    with server.client() as api, _engine(server) as redis:
        fill(api, 2)
        redis.set(REBUILDING, "another", px=60_000)
        done = rebuild("--data-dir", server.data_dir)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("layby: another rebuild is under way; wait for it")
        redis.delete(REBUILDING)
        assert rebuild("--data-dir", server.data_dir).returncode == 0
        assert not redis.exists(REBUILDING)


def test_on_a_terminal_it_shows_a_bar(new_server: NewServer):
    server = new_server()
    with server.client() as api:
        fill(api, 5)
    watched, ours = pty.openpty()
    termios.tcsetwinsize(ours, (24, 80))
    done = subprocess.run([*MAIN, "--data-dir", str(server.data_dir)], stdout=subprocess.PIPE, stderr=ours, timeout=60)
    assert done.returncode == 0
    assert b"/5 [" in os.read(watched, 100_000)
    os.close(ours)
    os.close(watched)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (lambda folder: ("--data-dir", folder / "none"), "there is no Layby data in"),
        (lambda _: ("--redis-url", f"redis://127.0.0.1:{free_port()}"), "Redis does not answer"),
        (lambda _: ("--redis-url", "redis+sentinel://127.0.0.1:7000"), "lacks the master's name"),
        (lambda _: ("--redis-url", "http://x"), "--redis-url is a URL Layby cannot use"),
    ],
)
def test_what_the_operator_must_mend_is_told_in_one_line(tmp_path: Path, option: Callable[[Path], Any], words: str):
    done = rebuild(*option(tmp_path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("layby: ")
    assert words in done.stderr
    assert done.stdout == ""


def test_a_redis_that_holds_no_store_is_left_as_it_is(new_server: NewServer):
    server = new_server()
    with _engine(server) as redis:
        redis.flushall()
        done = rebuild("--data-dir", server.data_dir)
        assert done.returncode == 2
        assert "there is no Layby data" in done.stderr
        assert redis.dbsize() == 0


def test_a_redis_that_refuses_is_told_in_one_line(new_server: NewServer):
    server = new_server()
    with _engine(server) as redis:
        redis.delete(STORE)
        redis.set(STORE, "something else")
        done = rebuild("--data-dir", server.data_dir)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("layby: Redis refuses a part of it: ")
    assert len(done.stderr.splitlines()) == 1
