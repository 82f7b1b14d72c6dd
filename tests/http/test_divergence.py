"""A store that loses what it acknowledged, seen over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis

from proofs.engines import Engine
from tests.http.conftest import Api, Server


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "engine") as started:
        yield started


@pytest.fixture
def server(engine: Engine, tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "data", redis_url=engine.url, partitions="4")
    yield started
    assert started.stop() == 0
    assert "Traceback" not in started.log.read_text()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    with server.client() as client:
        yield client


def eventually(condition, patience_s: float = 60):
    end = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def cursor_of(api: Api, count: int) -> str:
    """The cursor after so many items."""
    with api.stream("GET", "/v1/stream", timeout=20) as answer:
        lines = (json.loads(line) for line in answer.iter_lines() if line)
        return [next(lines)["cursor"] for _ in range(count)][-1]


def lose_by_restart(engine: Engine, then: bytes) -> None:
    """As an engine does that syncs every second, and dies before it: the file ends where it was."""
    engine.kill()
    (file,) = (engine.folder / "appendonlydir").glob("*.incr.aof")
    assert file.read_bytes().startswith(then)
    file.write_bytes(then)
    engine.start()


def test_an_engine_that_lost_its_last_second(engine: Engine, api: Api) -> None:
    sid = api.create()
    (file,) = (engine.folder / "appendonlydir").glob("*.incr.aof")
    on_disk = file.read_bytes()
    assert api.publish(sid, {"type": "a.b"}, {"type": "a.b"}).status_code == 201
    cursor = cursor_of(api, 3)
    with api.follow(sid) as lines:
        assert [json.loads(next(lines))["seq"] for _ in range(3)] == [1, 2, 3]
        lose_by_restart(engine, on_disk)
        eventually(lambda: api.publish(sid, {"type": "c.d"}).status_code == 201)
        assert [line for line in lines if line] == [], "cut, without an end and without another event 2"
    (lost,) = eventually(lambda: api.get("/readyz").json()["diverged"])
    assert sorted(lost) == ["partition", "since"], "what needs no key tells no more"
    refused = api.get("/v1/stream", params={"cursor": cursor})
    problem = refused.json()
    assert (refused.status_code, problem["type"].rpartition("/")[2]) == (410, "diverged")
    assert problem["sessions"] == [{"session_id": sid, "acknowledged_seq": 3, "last_common_seq": 1}]
    assert problem.keys() == {"type", "title", "status", "detail", "instance", "cursor", "sessions"}
    with api.stream("GET", "/v1/stream", params={"cursor": problem["cursor"]}, timeout=20) as answer:
        item = json.loads(next(line for line in answer.iter_lines() if line))
    assert (item["session_id"], item["seq"], item["type"]) == (sid, 2, "c.d")
    assert api.metric("layby_divergences_total") == 1
    assert api.get("/v1/sessions").json()["sessions"][0]["seq"] == 2


def test_a_store_that_is_flushed_under_a_server(engine: Engine, api: Api) -> None:
    sid = api.create()
    api.publish(sid, {"type": "a.b"})
    cursor = cursor_of(api, 2)
    with Redis.from_url(engine.url) as redis:
        redis.flushall()
    paths = ["/readyz", "/v1/sessions", "/v1/calls", f"/v1/sessions/{sid}", f"/v1/sessions/{sid}/events"]
    assert [api.get(path).status_code for path in paths] == [200, 200, 200, 404, 404]
    assert api.publish(sid, {"type": "a.b"}).status_code == 404
    assert api.get("/v1/stream", params={"cursor": cursor}).status_code == 410
    lost = eventually(lambda: api.get("/readyz").json()["diverged"])
    assert len(lost) == 1
    again = api.create()
    assert httpx.get(f"{api.base_url}/v1/sessions/{again}").status_code == 200
    assert [one["session_id"] for one in api.get("/v1/sessions").json()["sessions"]] == [again]
