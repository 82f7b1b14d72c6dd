"""Which paths and methods there are, and what every answer has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from urllib.parse import unquote, urlsplit

import httpx
import pytest
from redis import Redis
from starlette.requests import Request
from starlette.responses import Response

from api.http.body_budget import BodyBudget
from api.http.router import Route, Router
from api.metrics.registry import Metrics
from api.middleware.error_boundary import ErrorBoundary
from eventstore.domain.errors import CallNotFound, StoreUnavailable
from eventstore.domain.values.field_types import SESSION_ID
from eventstore.embedded.data_directory import DataDirectory
from eventstore.redis_keys import Keys


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v2/sessions",
        "/v1/sessions/",
        "/v1//sessions",
        "/v1/sessions/x/y",
        "/v1/sessions/x/",
        "/healthz/",
        "/v1/sessions/a%2Fb",
        "/v1/sessions/x/calls/a%2Fclaim",
        "/v1/sessions/x/calls//claim",
        "/docs",
    ],
)
def test_an_unknown_path_is_no_route(api, problem, path):
    for method in ("GET", "POST"):
        request = httpx.Request(method, httpx.URL(str(api.base_url)).copy_with(raw_path=path.encode()))
        assert problem(api.send(request), 404, "not-found")["instance"] == path


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/sessions/x", "DELETE, GET, HEAD"),
        ("DELETE", "/v1/sessions", "GET, HEAD, POST"),
        ("GET", "/v1/sessions/x/calls/y/claim", "POST"),
        ("POST", "/v1/sessions/x/stream", "GET, HEAD"),
        ("OPTIONS", "/healthz", "GET, HEAD"),
    ],
)
def test_a_route_tells_its_methods(api, problem, method, path, allow):
    answer = api.request(method, path)
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == allow


def test_every_documented_route_is_served_and_no_other_method(api):
    for path, item in api.get("/openapi.json").json()["paths"].items():
        allow = api.options(re.sub(r"\{\w+\}", "x", path)).headers.get("allow", "no such route")
        documented = {method.upper() for method in item}
        assert allow == ", ".join(sorted(documented | ({"HEAD"} if "GET" in documented else set()))), path


def test_names_are_decoded_once(api):
    sid = api.create(session_id="a:b.c_d-e")
    for iid in ("100% sure?", "a%2Fb", "日本", "x y"):
        api.ask(sid, iid)
        quoted = "".join(f"%{byte:02X}" for byte in iid.encode())
        assert api.get(f"/v1/sessions/a%3Ab.c_d-e/calls/{quoted}").json()["interrupt_id"] == iid


def test_head_is_get_without_a_body(api):
    sid = api.create()
    for path in (
        f"/v1/sessions/{sid}",
        f"/v1/sessions/{sid}/events",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
    ):
        head, get = api.head(path), api.get(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == get.headers["content-type"]
    assert api.head("/v1/sessions/nobody").status_code == 404


def test_every_answer_has_an_id_of_its_own(api):
    sid = api.create()
    answers = [
        api.get(f"/v1/sessions/{sid}"),
        api.get("/nowhere"),
        api.put("/healthz"),
        api.post("/v1/sessions", content=b"{"),
        api.delete(f"/v1/sessions/{sid}"),
        api.get(f"/v1/sessions/{sid}/stream"),
    ]
    ids = [answer.headers["layby-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids) and all(ids)


def test_the_service_describes_itself(api):
    assert api.get("/healthz").json() == {"status": "ok"}
    assert api.get("/readyz").json()["status"] == "ready"
    assert api.get("/openapi.json").json()["openapi"].startswith("3.1")
    metrics = api.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert re.search(r'layby_requests_total{method="GET",route="/healthz",status="200"} \d', metrics.text)


@pytest.mark.parametrize("request_line", [b"nonsense", b"GET / HTTP/9", b"GET /v1/sessions/\xff HTTP/1.1"])
def test_what_is_no_http_is_refused_like_everything_else(server, request_line):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(request_line + b"\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"layby-request-id: " in head
    assert json.loads(body)["type"].endswith("/invalid-request") and json.loads(body)["status"] == 400


def test_a_header_without_an_end_is_refused(server):
    """Whoever sends it must not keep the parser collecting."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        with contextlib.suppress(ConnectionError):  # it may be refused before all is sent
            for _ in range(100):
                connection.sendall(b"a" * 10_000)
        with contextlib.suppress(ConnectionError):
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
            assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_large_body_is_no_large_header(api):
    sid = api.create()
    text = "x" * 200_000
    for _ in range(3):  # on one connection
        assert api.publish(sid, {"type": "a.b", "data": {"text": text}}).status_code == 201


def client_of(*routes, **options):
    app = ErrorBoundary(Router(routes), Metrics(), BodyBudget(1024))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test", **options)


async def _fail(_: Request) -> Response:
    raise RuntimeError("secret of the house")


async def _away(_: Request) -> Response:
    raise StoreUnavailable("later")


def run(work):
    return asyncio.run(work)


def test_a_fault_of_ours_tells_nothing_and_is_logged(caplog, problem):
    answer = run(client_of(Route("GET", "/boom/{x}", _fail)).get("/boom/1"))
    body = problem(answer, 500, "internal-error")
    assert "secret" not in json.dumps(body) and "RuntimeError" not in answer.text
    (record,) = caplog.records
    assert answer.headers["layby-request-id"] in record.getMessage() and record.exc_info


async def _untold(_: Request) -> Response:
    raise CallNotFound("no such call", call=object())


def test_a_refusal_that_cannot_be_told_is_a_fault_of_ours_and_is_logged(caplog, problem):
    answer = run(client_of(Route("GET", "/x", _untold)).get("/x"))
    body = problem(answer, 500, "internal-error")
    assert body["instance"] == "/x" and "object" not in answer.text
    (record,) = caplog.records
    assert answer.headers["layby-request-id"] in record.getMessage() and record.exc_info


def test_a_store_that_is_away_is_told_with_a_time_to_come_back(problem):
    answer = run(client_of(Route("GET", "/x", _away)).get("/x"))
    problem(answer, 503, "store-unavailable")
    assert answer.headers["retry-after"] == "1"


def test_what_a_path_names_is_decoded_and_its_route_is_known_by_its_pattern():
    async def show(request: Request) -> Response:
        return Response(f"{request.path_params['id']} {request.scope['route']}")

    route = Route("GET", "/zhin/v1/session/{id}", show)
    assert run(client_of(route).get("/zhin/v1/session/a%20b")).text == "a b /zhin/v1/session/{id}"


def send(api, method, target, **options):
    """A request to exactly this target."""
    return api.send(httpx.Request(method, httpx.URL(str(api.base_url)).copy_with(raw_path=target), **options))


@pytest.mark.parametrize(
    ("method", "target", "named"),
    [
        ("GET", b"/v1/sessions?stat=running", "stat"),
        ("GET", b"/v1/sessions?status=running&Limit=3", "Limit"),
        ("GET", b"/v1/sessions?=3", ""),
        ("HEAD", b"/v1/sessions?page=3", "page"),
        ("GET", b"/v1/calls?tool=pay", "tool"),
        ("GET", b"/v1/stream?from=1", "from"),
        ("GET", b"/v1/sessions/x?at=1&form=2", "form"),
        ("GET", b"/v1/sessions/x/events?types=a.b&since=2", "since"),
        ("GET", b"/v1/sessions/x/stream?until=idle&limit=3", "limit"),
        ("GET", b"/v1/sessions/x/calls/y?wait=5", "wait"),
        ("POST", b"/v1/sessions?dry_run=true", "dry_run"),
        ("POST", b"/v1/sessions/x/events?durability=memory", "durability"),
        ("DELETE", b"/v1/sessions/x?force=1", "force"),
        ("GET", b"/healthz?verbose", "verbose"),
        ("GET", b"/v1/sessions?agent=%FF", "agent"),
        ("GET", b"/v1/sessions?agent=%ED%A0%80", "agent"),
        ("GET", b"/v1/sessions?%FF=1", ""),
    ],
)
def test_a_parameter_that_a_route_does_not_have_is_refused(api, problem, method, target, named):
    answer = send(api, method, target)
    assert answer.status_code == 400
    if method != "HEAD":
        assert [error["parameter"] for error in problem(answer, 400, "invalid-request")["errors"]] == [named]


def test_parameters_are_known_however_they_are_encoded(api):
    for query in (b"", b"&", b"lim%69t=3", b"agent=a+b&agent=%C3%A9", b"limit=3&limit=5"):
        assert send(api, "GET", b"/v1/sessions?" + query).status_code == 200, query
    assert send(api, "GET", b"/zhin/v1/health?anything=goes").status_code == 200


ESCAPES = [
    "..",
    ".",
    "a:b",
    "{p00}",
    "*",
    "a\nb",
    "a\x00b",
    "a b",
    "日本",
    "a{b}c",
    "x" * 200,
    "?",
    "layby:store",
    "[a-z]",
]


def test_names_in_a_path_never_leave_their_keys(new_server):
    """As a session, and as a call: nothing but keys of ours, in the slot that the name belongs to."""
    server = new_server()
    with server.client() as api:
        made = {try_to_escape(api, name) for name in ESCAPES}
    safe = r"[A-Za-z0-9_.~%-]+"
    known = re.compile(
        rf"layby:(?:store|keys|\{{p\d\d\}}:(?:deadlines|feed|sessions|proj:.*)"
        rf"|\{{p(\d\d)\}}:default:s:({safe}):(?:head|events|calls|due:{safe}))"
    )
    found = [
        known.fullmatch(key.decode())
        for key in Redis(unix_socket_path=str(DataDirectory(server.data_dir).socket())).scan_iter()
    ]
    assert all(found), "a key that is none of ours"
    sessions = {(unquote(key[2]), int(key[1])) for key in found if key and key[2]}
    assert sessions == {(name, Keys(64).session("default", name).partition.number) for name in made}


def try_to_escape(api, name: str) -> str:
    """The session that was made for it."""
    quoted = "".join(f"%{byte:02X}" for byte in name.encode()).encode()
    sid = api.create(session_id=name) if SESSION_ID.fullmatch(name) and name not in (".", "..") else api.create()
    api.publish(sid, {"type": "input.requested", "data": {"interrupt_id": name, "tool_name": "t", "tool_args": {}}})
    for method, target in (
        ("GET", b"/v1/sessions/%s" % quoted),
        ("DELETE", b"/v1/sessions/%s%%00" % quoted),
        ("GET", b"/v1/sessions/%s/calls/%s" % (sid.encode(), quoted)),
        ("POST", b"/v1/sessions/%s/calls/%s/decision" % (sid.encode(), quoted)),
        ("POST", b"/zhin/v1/authorization/%s/complete" % quoted),
    ):
        assert send(api, method, target, json={"action": "approve", "success": True}).status_code < 500
    return sid


@pytest.mark.parametrize("bad", [b"%FF", b"%C3", b"%ED%A0%80", b"a%80b"])
def test_a_path_that_is_no_text_names_nothing(api, problem, bad):
    """Decoded with a stand-in for what is wrong, it could name something else."""
    sid = api.create()
    api.ask(sid, "\N{REPLACEMENT CHARACTER}")
    api.ask(sid, "a\N{REPLACEMENT CHARACTER}b")
    answer = send(api, "GET", b"/v1/sessions/%s/calls/%s" % (sid.encode(), bad))
    assert problem(answer, 400, "invalid-request")["errors"][0]["parameter"] == "interrupt_id"
    answer = send(api, "GET", b"/v1/sessions/" + bad)
    assert problem(answer, 400, "invalid-request")["errors"][0]["parameter"] == "session_id"
    problem(send(api, "GET", b"/v1/" + bad), 404, "not-found")
