"""docs/redis-layout.md is what lies in Redis, and its example follows a session by that page alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any, cast

import pytest
from redis import Redis

import eventstore.redis_keys
import projections.redis_keys
from eventstore.redis_keys import Keys
from tests.http.conftest import Api, Server

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "tail_with_redis.py"
PAGE = (ROOT / "docs" / "redis-layout.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(r"^\| `(layby:[^`]+)` \|", PAGE, re.MULTILINE)
PLACES = {r"\{p07\}": r"\{p\d\d+\}", "<status>": r"[A-Z_]+", r"\[:…\]": "(:[^:]+)*"}
PATIENCE_S = 30


def catalogue(module: object) -> list[str]:
    """The key patterns that a module's docstring lists, and the keys that it names outright."""
    listed = re.findall(r"^ *(layby:\S+)", module.__doc__ or "", re.MULTILINE)
    named = [value for value in vars(module).values() if isinstance(value, str) and value.startswith("layby:")]
    return [pattern for pattern in dict.fromkeys([*listed, *named]) if not pattern.endswith(":proj:…")]


def as_regex(pattern: str) -> str:
    """A documented pattern as one that keys can be held against."""
    regex = re.escape(pattern)
    for place, meaning in PLACES.items():
        regex = regex.replace(place, meaning)
    return re.sub("<[^>]+>", "[^:]+", regex)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("layout") / "data")
    yield started
    started.stop()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    with server.client() as client:
        yield client


@pytest.fixture
def url(server: Server) -> str:
    """Where the server's engine listens, for any Redis client."""
    return "unix://" + (server.data_dir / "engine.address").read_text()


def tail(url: str, session_id: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLE), url, session_id, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    """The exit code, the lines, and the complaint of a tail that ends by itself."""
    assert process.stdout and process.stderr
    with process:  # not communicate(): it would pass over what was read ahead with a first line
        out, err = process.stdout.read(), process.stderr.read()
        return process.wait(PATIENCE_S), out.splitlines(), err.strip()


def test_the_example_follows_a_session_to_its_end(api: Api, url: str) -> None:
    sid = api.create(agent="a:b", message="línea")
    following = tail(url, sid)
    assert following.stdout
    first = following.stdout.readline()  # it is at work: what comes now comes live
    api.publish(sid, {"type": "turn.started"})
    api.ask(sid)
    api.publish(sid, {"type": "session.completed"})
    code, lines, _ = heard(following)
    assert code == 0
    assert [first.rstrip("\n"), *lines] == api.get(f"/v1/sessions/{sid}/events").text.splitlines()


def test_it_begins_at_any_offset(api: Api, url: str) -> None:
    sid = api.create(session_id="a:b_c.d-e")
    api.publish(sid, *({"type": "note.taken", "data": {"n": n}} for n in range(5)), {"type": "session.failed"})
    code, lines, _ = heard(tail(url, sid, "4"))
    assert (code, lines) == (0, api.get(f"/v1/sessions/{sid}/events", params={"from": 4}).text.splitlines())


def test_it_finds_a_changed_event(api: Api, url: str) -> None:
    sid = api.create()
    api.publish(sid, {"type": "note.taken", "data": {"text": "as it was"}}, {"type": "session.completed"})
    with Redis.from_url(url) as redis:
        key = next(redis.scan_iter(match=f"*{sid}:events"))
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", redis.xrange(key))
        redis.delete(key)
        for entry, fields in entries:
            redis.xadd(key, {**fields, b"e": fields[b"e"].replace(b"as it was", b"as I like")}, id=entry)
    code, lines, complaint = heard(tail(url, sid))
    assert (code, len(lines), complaint) == (1, 1, "event 2 does not follow from what stands before it")


def test_it_says_so_when_there_is_nothing(api: Api, url: str) -> None:
    assert heard(tail(url, "nobody"))[::2] == (1, "there is no session of this id")
    sid = api.create()
    assert api.delete(f"/v1/sessions/{sid}").status_code == 204
    assert heard(tail(url, sid))[::2] == (1, "the session was deleted")


def block(language: str) -> str:
    """The code that the page shows in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


NAMES = [("default", "ses_01"), ("acme:eu", "a:b.c-d_e"), ("größe ~!'()*", "x")]


@pytest.mark.parametrize(("tenant", "session_id"), NAMES)
@pytest.mark.parametrize("partitions", [64, 7, 4096])
def test_the_python_on_the_page_makes_the_key(partitions: int, tenant: str, session_id: str) -> None:
    there: dict[str, Any] = {}
    exec(block("python"), there)
    assert there["session_key"](partitions, tenant, session_id) == Keys(partitions).session(tenant, session_id).base


@pytest.mark.skipif(not which("node"), reason="no Node here")
def test_the_javascript_on_the_page_makes_the_key(tmp_path: Path) -> None:
    script = tmp_path / "key.mjs"
    script.write_text(f"{block('js')}\nfor (const [t, s] of {json.dumps(NAMES)}) console.log(sessionKey(64, t, s));")
    told = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [Keys(64).session(*names).base for names in NAMES]


def test_the_shell_commands_on_the_page_find_the_key(api: Api, url: str) -> None:
    sid = api.create()
    script = f"S={sid}\n{block('sh')}"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    with Redis.from_url(url) as redis:
        assert redis.exists(told.strip())


@pytest.mark.parametrize("module", [eventstore.redis_keys, projections.redis_keys])
def test_every_key_pattern_is_documented(module: object) -> None:
    assert catalogue(module)
    assert [pattern for pattern in catalogue(module) if pattern not in DOCUMENTED] == []


def test_the_page_documents_nothing_else() -> None:
    known = {*catalogue(eventstore.redis_keys), *catalogue(projections.redis_keys)}
    assert [pattern for pattern in DOCUMENTED if pattern not in known] == []


def test_every_key_of_a_server_is_documented(api: Api, url: str) -> None:
    sid = api.create(agent="a")
    api.publish(sid, {"type": "turn.started"}, headers={"Idempotency-Key": "once"})
    api.ask(sid)
    asked = {"interrupt_id": "oauth", "connection": "github"}
    api.publish(sid, {"type": "authorization.required", "data": asked})
    for path in ("/v1/calls", "/v1/sessions", "/readyz"):
        api.get(path)
    known = re.compile("|".join(map(as_regex, DOCUMENTED)))
    with Redis.from_url(url, decode_responses=True) as redis:
        found = list(redis.scan_iter(count=1_000))
    assert len(found) > 10
    assert [key for key in found if not known.fullmatch(key)] == []
