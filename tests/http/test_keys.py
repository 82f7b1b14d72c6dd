"""The door: who gets in, what a key opens, what of others it never shows, and what becomes of it when it goes."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from eventstore.domain.api_keys import SCOPES
from tests.http.doors import Doors, until

SSE = {"Accept": "text/event-stream"}
EVENT = {"type": "a.b", "data": {"x": 1}}
CUT_S = 5.0


@pytest.fixture(scope="module")
def keyed(tmp_path_factory, server_class):
    """A server with keys, shared by the tests of this file."""
    server = server_class(tmp_path_factory.mktemp("keyed") / "data")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def doors(keyed) -> Doors:
    return Doors(keyed)


@pytest.fixture(scope="module")
def boss(doors) -> Iterator[httpx.Client]:
    with doors.open("boss") as client:
        yield client


@pytest.fixture(scope="module")
def nobody(keyed, boss) -> Iterator[httpx.Client]:
    with keyed.client() as client:
        yield client


@pytest.fixture(scope="module")
def stranger(doors, boss) -> Iterator[httpx.Client]:
    """One of another tenant."""
    with doors.open("boss", tenant="bolt") as client:
        yield client


def raw(server, head: str) -> bytes:
    """What a server answers to a request head that a client library would not send."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(65_536)
        return answer


WRONG_KEY = "layby_000000000000_" + "0" * 52


@pytest.mark.parametrize("sent", ["Basic eDp5", "Bearer", "bearer", "Token abc", "", "Bearer\tx", "xBearer y"])
def test_a_header_without_a_key_is_none(nobody, problem, sent):
    answer = nobody.get("/v1/sessions", headers={"Authorization": sent})
    problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="layby"'


@pytest.mark.parametrize(
    "sent", ["Bearer wrong", f"Bearer {WRONG_KEY}", f"BEARER {WRONG_KEY}", "Bearer é" + "x" * 5_000]
)
def test_a_wrong_key_is_told_so(nobody, problem, sent):
    answer = nobody.get("/v1/sessions", headers={"Authorization": sent.encode("latin-1")})
    problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="layby", error="invalid_token"'


def test_almost_the_key_is_not_the_key(boss, nobody, problem):
    key = boss.headers["authorization"]
    for other in (key[:-1] + ("0" if key[-1] != "0" else "1"), key + "0", key[:-1], key.upper()):
        problem(nobody.get("/metrics", headers={"Authorization": other}), 401, "unauthorized")
    assert nobody.get("/metrics", headers={"Authorization": key.replace("Bearer", "beARER")}).status_code == 200


def test_two_keys_are_none(boss, nobody, problem):
    header = ("Authorization", boss.headers["authorization"])
    problem(nobody.get("/metrics", headers=[header, header]), 401, "unauthorized")


def test_an_empty_key_is_none(keyed, boss):
    answer = raw(keyed, "GET /v1/sessions HTTP/1.1\nHost: x\nAuthorization: Bearer \n\n")
    assert answer.startswith(b"HTTP/1.1 401 ") and b'www-authenticate: bearer realm="layby"\r\n' in answer.lower()


def test_the_door_is_judged_before_a_body_is_read(keyed, boss):
    head = "POST /v1/sessions/{}/events HTTP/1.1\nHost: x\nContent-Length: 900000000\n{}\n"
    assert raw(keyed, head.format("ses_x", "")).startswith(b"HTTP/1.1 401 ")


def test_nobody_learns_whether_there_is_a_session(nobody, boss):
    sid = boss.create()
    answers = [nobody.get(f"/v1/sessions/{name}") for name in (sid, "ses_nope", "%20", "x" * 500)]
    bodies = [{k: v for k, v in answer.json().items() if k != "instance"} for answer in answers]
    assert {answer.status_code for answer in answers} == {401}
    assert all(body == bodies[0] for body in bodies)


def test_health_needs_no_key(nobody):
    for path in ("/healthz", "/readyz", "/zhin/v1/health"):
        assert nobody.get(path).status_code == 200


def test_what_is_no_route_says_so_to_everyone(nobody, problem):
    problem(nobody.get("/v2/nothing"), 404, "not-found")
    problem(nobody.put("/v1/sessions"), 405, "method-not-allowed")


def operations(document) -> list[tuple[str, str, str | None]]:
    """Method, path and scope of each route, as the document tells them; a scope of None: no key is needed."""
    found = list[tuple[str, str, str | None]]()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scopes = [one["bearer"] for one in operation["security"] if one]
            filled = path.replace("{session_id}", "ses_nope").replace("{interrupt_id}", "i").replace("{id}", "ses_nope")
            scope = None if not scopes else "".join(scopes[0])
            found.append((method.upper(), filled.replace("{requestId}", "r"), scope))
    return found


def test_each_route_wants_the_scope_that_the_document_names(doors, boss, nobody):
    routes = operations(boss.get("/openapi.json").json())
    assert {scope for *_, scope in routes} == {None, "", "publish", "read", "decide", "execute", "admin"}
    keys = {scope: doors.make(f"only-{scope}", scope) for scope in SCOPES}
    with ExitStack() as stack:
        holders = {scope: stack.enter_context(doors.client(key)) for scope, key in keys.items()}
        for client in holders.values():
            until(lambda client=client: client.get("/openapi.json").status_code == 200)
        for method, path, scope in routes:
            if scope is None:
                assert nobody.request(method, path).status_code == 200
                continue
            assert refused(nobody.request(method, path)) == (401, "UNAUTHORIZED"), path
            for held, client in holders.items():
                check_scope(client, held, method, path, scope)


def check_scope(client, held: str, method: str, path: str, scope: str) -> None:
    """Whether a key with one scope gets in where this one is needed (empty: any)."""
    with client.stream(method, path, content=b"{}" if method == "POST" else None, timeout=20) as answer:
        if scope in ("", held):
            assert answer.status_code not in (401, 403), (method, path, held)
        else:
            answer.read()
            assert refused(answer) == (403, "MISSING_SCOPE"), (method, path, held)
            assert answer.headers["www-authenticate"].endswith(f'error="insufficient_scope", scope="{scope}"')


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Status and code, in either form of refusal."""
    body = answer.json()
    code = body.get("error") or body["type"].rsplit("/", 1)[1].upper().replace("-", "_")
    return answer.status_code, code


def test_a_lacking_scope_is_named(doors, boss, problem):
    with doors.open("reader", "read") as reader:
        body = problem(reader.post("/v1/sessions", json={}), 403, "missing-scope")
    assert body["scope"] == "publish" and "publish" in body["detail"] and "reader" in body["detail"]


def test_who_writes_is_the_key(boss):
    sid = boss.create()
    assert boss.page(sid)["events"][0]["by"] == "boss"
    assert "via" not in boss.page(sid)["events"][0]


def test_a_person_behind_a_console(doors, boss, problem):
    sid = boss.create()
    iid = boss.ask(sid)
    decision = (f"/v1/sessions/{sid}/calls/{iid}/decision", {"action": "approve"})
    with doors.open("plain", "read,decide,publish") as plain:
        body = problem(plain.post(decision[0], json=decision[1], headers={"Layby-Actor": "anna"}), 403, "missing-scope")
        assert body["scope"] == "act_as"
    twice = [("Layby-Actor", "anna"), ("Layby-Actor", "ben")]
    problem(boss.post(decision[0], json=decision[1], headers=twice), 400, "invalid-request")
    for name in ("layby", "Layby", "a\tb", "\u00a0", "x\u0085"):
        named = {"Layby-Actor": name.encode()}
        problem(boss.post(decision[0], json=decision[1], headers=named), 400, "invalid-request")
    assert boss.post(decision[0], json=decision[1], headers={"Layby-Actor": "anna"}).json()["outcome"] == "applied"
    event = next(one for one in boss.page(sid)["events"] if one["type"] == "input.completed")
    assert (event["by"], event["via"]) == ("anna", "boss")
    problem(boss.post(decision[0], json=decision[1]), 409, "call-already-decided")
    again = boss.post(decision[0], json=decision[1], headers={"Layby-Actor": "anna"}).json()
    assert again["outcome"] == "duplicate"


def test_a_session_of_another_tenant_is_as_good_as_none(boss, stranger):
    sid = boss.create()
    iid = boss.ask(sid)
    nowhere = "ses_" + "0" * 26
    for method, path, body in (
        ("GET", "/v1/sessions/{}", None),
        ("GET", "/v1/sessions/{}/events", None),
        ("GET", "/v1/sessions/{}/stream", None),
        ("GET", "/v1/sessions/{}/steps", None),
        ("GET", f"/v1/sessions/{{}}/calls/{iid}", None),
        ("POST", f"/v1/sessions/{{}}/calls/{iid}/decision", {"action": "approve"}),
        ("POST", "/v1/sessions/{}/events", EVENT),
        ("POST", "/v1/sessions/{}/messages", {"continuation_token": "x", "message": "m"}),
        ("DELETE", "/v1/sessions/{}", None),
        ("GET", "/zhin/v1/session/{}/stream", None),
        ("POST", "/zhin/v1/session/{}/input", {"requestId": iid, "approved": True}),
    ):
        theirs, none = (stranger.request(method, path.format(name), json=body) for name in (sid, nowhere))
        assert theirs.status_code == none.status_code == 404, path
        assert theirs.text.replace(sid, nowhere) == none.text
        assert theirs.headers.keys() == none.headers.keys()
    assert boss.get(f"/v1/sessions/{sid}/calls/{iid}").json()["status"] == "PENDING_APPROVAL"


def test_one_id_in_two_tenants_is_two_sessions(boss, stranger):
    sid = boss.create(session_id="shared-name", agent="ours")
    assert stranger.create(session_id=sid, agent="theirs") == sid
    stranger.publish(sid, EVENT)
    assert (boss.types(sid), stranger.types(sid)) == (["session.started"], ["session.started", "a.b"])
    assert stranger.delete(f"/v1/sessions/{sid}").status_code == 204
    assert boss.get(f"/v1/sessions/{sid}").json()["agent"] == "ours"


def test_lists_and_inboxes_are_of_one_tenant(boss, stranger):
    agent = "lister"
    iid = boss.ask(boss.create(agent=agent))
    for path in ("/v1/sessions", "/v1/calls"):
        shown = boss.get(path, params={"agent": agent}).text
        assert iid in shown or '"lister"' in shown
        assert "lister" not in stranger.get(path).text and iid not in stranger.get(path).text


def test_a_cursor_of_another_tenant_is_garbled(boss, stranger, problem):
    for client in (boss, stranger):
        sid = client.create(session_id="paged")
        for n in range(2):
            client.create()
            client.ask(sid, f"call-{n}")
    for path in ("/v1/sessions", "/v1/calls", "/v1/sessions/paged/calls"):
        cursor = boss.get(path, params={"limit": 1}).json()["next_cursor"]
        assert boss.get(path, params={"limit": 1, "cursor": cursor}).status_code == 200
        problem(stranger.get(path, params={"limit": 1, "cursor": cursor}), 400, "invalid-request")
    with boss.stream("GET", "/v1/stream", timeout=20) as answer:
        cursor = json.loads(next(filter(None, answer.iter_lines())))["cursor"]
    problem(stranger.get("/v1/stream", params={"cursor": cursor}), 400, "invalid-request")
    problem(stranger.get("/v1/stream", headers={**SSE, "Last-Event-ID": cursor}), 400, "invalid-request")


def test_the_feed_shows_one_tenant_and_its_cursor_nothing(boss, stranger):
    with stranger.stream("GET", "/v1/stream", params={"cursor": "now"}, timeout=20) as answer:
        lines = filter(None, answer.iter_lines())
        sid = stranger.create(session_id="feed-of-bolt")
        ours = boss.create()
        boss.publish(ours, {"type": "secret.a"})
        stranger.publish(sid, {"type": "open.b"})
        first, second = (json.loads(next(lines)) for _ in range(2))
    assert [first["type"], second["type"]] == ["session.started", "open.b"]
    assert len(first["cursor"]) == len(second["cursor"])


def test_an_idempotency_key_belongs_to_its_tenant_and_its_writer(doors, boss, stranger):
    headers = {"Idempotency-Key": "once"}
    made = [client.post("/v1/sessions", json={}, headers=headers) for client in (boss, stranger, boss)]
    names = [answer.json()["session_id"] for answer in made]
    assert names[0] == names[2] != names[1]
    assert made[2].headers["idempotency-replayed"] == "true" and "idempotency-replayed" not in made[1].headers


def test_an_authorization_is_looked_for_in_one_tenant(boss, stranger):
    sid = boss.create()
    data = {"interrupt_id": "auth-1", "connection": "mail", "expires_in_ms": 60_000}
    assert boss.publish(sid, {"type": "authorization.required", "data": data}).status_code == 201
    path = "/zhin/v1/authorization/auth-1/complete"
    answer = stranger.post(path, json={"success": True})
    assert (answer.status_code, answer.json()["error"]) == (404, "AUTHORIZATION_REQUEST_NOT_FOUND")
    assert boss.post(path, json={"success": True}).json()["ok"]


def test_metrics_name_no_tenant_and_no_session(boss, stranger):
    sid = stranger.create(session_id="named-in-no-metric")
    text = boss.get("/metrics").text
    assert "layby_requests_total" in text and "bolt" not in text and sid not in text


Gone = Callable[[Doors, str], None]


def revoked(doors: Doors, name: str) -> None:
    doors.revoke(name)


def expired(doors: Doors, name: str) -> None:
    """It does so by itself."""


@pytest.mark.parametrize(("goes", "lives_ms"), [(revoked, None), (expired, 6_000)])
def test_what_a_key_holds_open_is_cut_when_it_goes(doors, boss, problem, goes: Gone, lives_ms):
    name = f"leaver-{goes.__name__}"
    sid = boss.create()
    iid = boss.ask(sid)
    running = boss.create()
    key = doors.make(name, lives_ms=lives_ms)
    began = time.monotonic()
    with doors.client(key) as client:
        until(lambda: client.get("/openapi.json").status_code == 200)
        paths = [f"/v1/sessions/{sid}/stream", "/v1/stream", f"/zhin/v1/session/{running}/stream"]
        ended, rests = list[float](), dict[str, list[str]]()

        def follow(path: str) -> None:
            with client.stream("GET", path, timeout=30) as answer:
                rests[path] = [line for line in answer.iter_lines() if line]
            ended.append(time.monotonic())

        def wait() -> None:
            waited.append(client.get(f"/v1/sessions/{sid}/calls/{iid}", params={"wait_ms": 60_000}))
            ended.append(time.monotonic())

        waited = list[httpx.Response]()
        tails = boss.metric("layby_open_tails")
        threads = [threading.Thread(target=follow, args=[path]) for path in paths]
        threads.append(threading.Thread(target=wait))
        for thread in threads:
            thread.start()
        until(lambda: boss.metric("layby_open_tails") >= tails + 3)
        goes(doors, name)
        gone = began + lives_ms / 1000 if lives_ms else time.monotonic()
        for thread in threads:
            thread.join(30)
        assert len(ended) == 4
        problem(waited[0], 401, "unauthorized")
        problem(client.get("/v1/sessions"), 401, "unauthorized")
    assert not any('"end"' in line for lines in rests.values() for line in lines), "a stream that is cut has no end"
    assert max(ended) - gone < 3 * CUT_S, "as far as a busy machine can tell"


def test_a_request_that_arrives_slowly_is_judged_by_its_key_when_it_is_all_there(doors, boss, problem):
    sid = boss.create()
    iid = boss.ask(sid)
    begun, gone = threading.Event(), threading.Event()

    def body() -> Iterator[bytes]:
        yield b'{"action":'
        begun.set()
        assert gone.wait(30)
        yield b'"approve"}'

    answers = list[httpx.Response]()
    with doors.client(doors.make("slow")) as client:
        until(lambda: client.get("/openapi.json").status_code == 200)
        path = f"/v1/sessions/{sid}/calls/{iid}/decision"
        with doors.client(client.headers["authorization"].split()[1]) as another:
            sender = threading.Thread(target=lambda: answers.append(another.post(path, content=body(), timeout=60)))
            sender.start()
            assert begun.wait(30)
            doors.revoke("slow")
            until(lambda: client.get("/openapi.json").status_code == 401)
            gone.set()
            sender.join(60)
    problem(answers[0], 401, "unauthorized")
    assert boss.get(f"/v1/sessions/{sid}/calls/{iid}").json()["status"] == "PENDING_APPROVAL"


def test_an_open_server_shuts_with_its_first_key(new_server, problem):
    server = new_server()
    with server.client() as anyone:
        assert anyone.get("/v1/sessions", headers={"Authorization": "Bearer whatever"}).status_code == 200
        sid = anyone.create()
        with anyone.follow(sid) as lines:
            next(lines)
            with Doors(server).open("first") as first:
                assert [line for line in lines if line] == [], "cut, without an end"
                assert first.types(sid) == ["session.started"], "the default tenant is what was open"
        problem(anyone.get(f"/v1/sessions/{sid}"), 401, "unauthorized")


def test_a_door_without_a_live_key_stays_shut(new_server, problem):
    server = new_server()
    doors = Doors(server)
    with doors.open("only") as only:
        doors.revoke("only")
        until(lambda: only.get("/openapi.json").status_code == 401)
    server.stop()
    again = new_server(host="0.0.0.0")
    assert "shut" in again.greeting and "layby keys create" in again.greeting
    with httpx.Client(base_url=again.url.replace("0.0.0.0", "127.0.0.1")) as nobody:
        problem(nobody.get("/v1/sessions"), 401, "unauthorized")


def test_a_server_with_keys_listens_anywhere(new_server):
    first = new_server()
    key = Doors(first).make("svc")
    first.stop()
    server = new_server(host="0.0.0.0")
    assert server.greeting.endswith("with 1 key\n")
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}) as client:
        assert client.get("/v1/sessions").status_code == 200


def test_no_log_line_holds_a_key(new_server):
    server = new_server()
    doors = Doors(server)
    with doors.open("svc", "read") as client:
        key = client.headers["authorization"].split()[1]
        client.post("/v1/sessions", content=b"{")
        client.get(f"/v1/{key}")
        client.get("/v1/stream", params={"cursor": key})
        doors.revoke("svc")
        until(lambda: client.get("/v1/sessions").status_code == 401)
    raw(server, f"GET /\0 HTTP/1.1\nAuthorization: Bearer {key}\n\n")
    server.stop()
    assert key.rsplit("_", 1)[1] not in server.log.read_text()
    for path in server.data_dir.rglob("*"):
        assert path.is_dir() or key.rsplit("_", 1)[1].encode() not in path.read_bytes()
