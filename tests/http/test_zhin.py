"""The mount for Zhin's console client: its routes, its words, its codes."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import httpx
import pytest

from api.http.body_budget import BodyBudget
from api.http.router import Route, Router
from api.metrics.registry import Metrics
from api.middleware.error_boundary import ErrorBoundary
from api.zhin.answers import guarded
from eventstore.domain.errors import InternalError, MissingScope, Overloaded, StoreFull, StoreUnavailable, Unauthorized

BASE = "/zhin/v1"
NOBODY = "ses_nobody"
TURN, END = {"type": "turn.started", "data": {"turn_id": "t"}}, {"type": "turn.completed"}


def start(api, message="Hello"):
    answer = api.post(f"{BASE}/session", json={"message": message})
    assert answer.status_code == 200, answer.text
    return answer.json()


def send(api, sid, **body):
    return api.post(f"{BASE}/session/{sid}", json=body)


def decide(api, sid, **body):
    return api.post(f"{BASE}/session/{sid}/input", json=body)


def complete(api, request_id, **body):
    return api.post(f"{BASE}/authorization/{request_id}/complete", json=body)


def read(api, sid, **params):
    """The lines of a stream that closes by itself."""
    answer = api.get(f"{BASE}/session/{sid}/stream", params=params, timeout=10)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert answer.headers["x-zhin-session-id"] == sid
    return [json.loads(line) for line in answer.text.split("\n") if line]


def data_of(api, sid, kind):
    return next(line["data"] for line in read(api, sid) if line["type"] == kind)


def refused(answer, status, code):
    assert (answer.status_code, answer.json()) == (status, {"ok": False, "error": code})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["layby-request-id"]
    return answer


def require(api, sid, request_id, **data):
    event = {"type": "authorization.required", "data": {"requestId": request_id, "connection": "github", **data}}
    assert api.publish(sid, event).status_code == 201


def test_health(api):
    assert api.get(f"{BASE}/health").json() == {"ok": True, "service": "zhin-agent-session"}


def test_a_session_is_started_and_continued(api):
    begun = start(api)
    sid = begun["sessionId"]
    assert list(begun) == ["ok", "sessionId", "continuationToken"] and sid.startswith("ses_")
    assert api.types(sid) == ["session.started", "message.received"]
    answer = send(api, sid, continuationToken=begun["continuationToken"], message="again", more="passed over")
    assert answer.status_code == 200 and answer.headers["x-zhin-session-id"] == sid
    body = answer.json()
    assert body == {"ok": True, "sessionId": sid, "continuationToken": body["continuationToken"]}
    token = api.get(f"/v1/sessions/{sid}").json()["continuation_token"]
    assert body["continuationToken"] == f"zhin:{token}" != begun["continuationToken"]
    assert api.page(sid)["events"][-1]["data"]["text"] == "again"


@pytest.mark.parametrize("body", [{}, {"message": None}, {"message": ""}, {"message": " \n"}, {"message": 1}])
def test_a_session_needs_a_message(api, body):
    refused(api.post(f"{BASE}/session", json=body), 400, "MESSAGE_REQUIRED")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"message":"\\ud800"}'])
def test_a_body_is_a_json_object(api, body):
    for path in ("session", f"session/{NOBODY}", f"session/{NOBODY}/input", "authorization/a/complete"):
        refused(api.post(f"{BASE}/{path}", content=body), 400, "INVALID_BODY")


def test_a_body_has_a_limit(api):
    refused(api.post(f"{BASE}/session", json={"message": "x" * 1_100_000}), 413, "TOO_LARGE")


def test_a_message_needs_the_newest_token(api):
    begun = start(api)
    sid, token = begun["sessionId"], begun["continuationToken"]
    refused(send(api, sid, message="m"), 400, "CONTINUATION_TOKEN_REQUIRED")
    refused(send(api, sid, continuationToken=token), 400, "MESSAGE_REQUIRED")
    refused(send(api, sid, continuationToken=token, message=" "), 400, "MESSAGE_REQUIRED")
    for stale in ("zhin:old", "x", token.removeprefix("zhin:"), f"zhin:{token}"):
        answer = refused(send(api, sid, continuationToken=stale, message="m"), 409, "CONTINUATION_TOKEN_STALE")
        assert answer.headers["x-zhin-session-id"] == sid
    api.publish(sid, TURN)
    refused(send(api, sid, continuationToken=token, message="m"), 409, "SESSION_BUSY")
    api.publish(sid, {"type": "session.completed"})
    refused(send(api, sid, continuationToken=token, message="m"), 400, "SESSION_TERMINAL")


@pytest.mark.parametrize("sid", [NOBODY, "a%20b", "x" * 200, "%E6%97%A5"])
def test_an_unknown_session(api, sid):
    refused(send(api, sid, continuationToken="zhin:x", message="m"), 404, "SESSION_NOT_FOUND")
    refused(api.get(f"{BASE}/session/{sid}/stream"), 404, "SESSION_NOT_FOUND")
    refused(decide(api, sid, requestId="r", approved=True), 404, "SESSION_NOT_FOUND")


def test_a_deleted_session(api):
    begun = start(api)
    sid = begun["sessionId"]
    require(api, sid, "auth-deleted")
    api.delete(f"/v1/sessions/{sid}")
    refused(send(api, sid, continuationToken=begun["continuationToken"], message="m"), 410, "SESSION_DELETED")
    refused(api.get(f"{BASE}/session/{sid}/stream"), 410, "SESSION_DELETED")
    refused(decide(api, sid, requestId="r", approved=True), 410, "SESSION_DELETED")
    refused(complete(api, "auth-deleted", success=True, sessionId=sid), 410, "SESSION_DELETED")
    refused(complete(api, "auth-deleted", success=True), 404, "AUTHORIZATION_REQUEST_NOT_FOUND")


def test_an_approval_and_a_rejection(api):
    sid = start(api)["sessionId"]
    for name, approved, action in (("yes", True, "approve"), ("no", False, "reject")):
        api.ask(sid, name)
        answer = decide(api, sid, requestId=name, approved=approved)
        assert answer.json() == {"ok": True, "sessionId": sid, "requestId": name, "approved": approved}
        assert answer.headers["x-zhin-session-id"] == sid
        assert api.get(f"/v1/sessions/{sid}/calls/{name}").json()["decision"]["action"] == action
        assert decide(api, sid, requestId=name, approved=approved).status_code == 200, "the same again hears the same"
        refused(decide(api, sid, requestId=name, approved=not approved), 409, "REQUEST_ALREADY_DECIDED")


@pytest.mark.parametrize("approved", [None, "yes", "true", 1, 0, [], {}])
def test_only_a_boolean_decides(api, approved):
    sid = start(api)["sessionId"]
    api.ask(sid, "r")
    refused(decide(api, sid, requestId="r", approved=approved), 400, "APPROVED_REQUIRED")
    require(api, sid, "a")
    refused(complete(api, "a", success=approved, sessionId=sid), 400, "SUCCESS_REQUIRED")
    assert api.get("/v1/sessions/" + sid).json()["parked"] is True


def test_an_input_names_its_request(api):
    sid = start(api)["sessionId"]
    require(api, sid, "auth")
    for request_id in (None, "", 7):
        refused(decide(api, sid, requestId=request_id, approved=True), 400, "REQUEST_ID_REQUIRED")
    for request_id in ("nobody", "auth"):
        refused(decide(api, sid, requestId=request_id, approved=True), 404, "REQUEST_NOT_FOUND")


def test_a_question_is_answered_with_true(api):
    sid = start(api)["sessionId"]
    api.ask(sid, "q", kind="question")
    api.ask(sid, "strict", kind="question", response_schema={"type": "string"})
    api.ask(sid, "narrow", options=["reject"])
    assert decide(api, sid, requestId="q", approved=True).status_code == 200
    assert api.get(f"/v1/sessions/{sid}/calls/q").json()["result"] is True
    refused(decide(api, sid, requestId="strict", approved=True), 400, "INVALID_REQUEST")
    refused(decide(api, sid, requestId="narrow", approved=True), 400, "NOT_OFFERED")
    assert decide(api, sid, requestId="narrow", approved=False).status_code == 200


def test_what_has_expired_says_so_for_ever(api, eventually):
    sid = start(api)["sessionId"]
    api.ask(sid, "r", expires_in_ms=50)
    require(api, sid, "a", expires_in_ms=50)
    eventually(lambda: api.types(sid).count("input.expired") == 2)
    for _ in range(2):
        refused(decide(api, sid, requestId="r", approved=True), 410, "REQUEST_EXPIRED")
        refused(complete(api, "a", success=True, sessionId=sid), 410, "REQUEST_EXPIRED")


def test_an_authorization_is_completed(api):
    sid = start(api)["sessionId"]
    for name, success in (("granted", True), ("denied", False)):
        require(api, sid, name)
        body = {"success": success, "error": None if success else "no", "sessionId": sid}
        answer = complete(api, name, **body)
        assert answer.json() == {"ok": True, "requestId": name, "success": success}
        assert answer.headers["x-zhin-session-id"] == sid
        assert complete(api, name, **body).status_code == 200
        refused(complete(api, name, success=not success, sessionId=sid), 409, "REQUEST_ALREADY_DECIDED")
    api.ask(sid, "call")
    for name, where in (("nobody", sid), ("call", sid), ("granted", NOBODY), ("granted", "a/b")):
        answer = complete(api, name, success=True, sessionId=where)
        refused(answer, 404, "AUTHORIZATION_REQUEST_NOT_FOUND")


def test_an_authorization_is_found_by_its_id_the_newest_open_one_first(api):
    name = f"auth {time.time_ns()}"
    old, new, closed = (start(api)["sessionId"] for _ in range(3))
    for sid in (old, new, closed):
        require(api, sid, name)
        time.sleep(0.005)
    path = name.replace(" ", "%20")
    assert complete(api, path, success=True, sessionId=closed).status_code == 200
    for sid in (new, old):
        answer = complete(api, path, success=True)
        assert answer.status_code == 200 and answer.headers["x-zhin-session-id"] == sid
    refused(complete(api, path, success=False), 409, "REQUEST_ALREADY_DECIDED")


def test_a_retry_completes_no_second_authorization(api):
    """The first attempt closed the newest one; its retry must not go to the next."""
    name = f"auth-{time.time_ns()}"
    old, new = (start(api)["sessionId"] for _ in range(2))
    for sid in (old, new):
        require(api, sid, name)
        time.sleep(0.005)
    headers = {"Idempotency-Key": "once"}
    url = f"{BASE}/authorization/{name}/complete"
    first, second = (api.post(url, json={"success": True}, headers=headers) for _ in range(2))
    assert first.headers["x-zhin-session-id"] == second.headers["x-zhin-session-id"] == new
    assert second.headers["Idempotency-Replayed"] == "true"
    assert api.get(f"/v1/sessions/{old}/calls/{name}").json()["status"] == "PENDING_APPROVAL"


def test_lines_to_the_letter(api):
    begun = start(api)
    sid = begun["sessionId"]
    api.publish(sid, TURN, {"type": "any.thing", "data": {"snake_case": {"as_it": "is"}}})
    api.ask(sid, "r", args={"a_b": 1}, tool_args=None, prompt="May I?", expires_in_ms=60_000)
    stored = {event["type"]: event["data"] for event in api.page(sid)["events"]}
    lines = {line["type"]: line for line in read(api, sid)}
    assert all(list(line) == ["type", "data", "timestamp"] for line in lines.values())
    assert all(abs(line["timestamp"] - time.time() * 1000) < 60_000 for line in lines.values())
    assert lines["message.received"]["data"] == {"text": "Hello", "continuationToken": begun["continuationToken"]}
    assert lines["any.thing"]["data"] == {"snake_case": {"as_it": "is"}}
    step = lines["step.interrupted"]["data"]
    assert step == {
        "stepId": stored["step.started"]["step_id"],
        "turnId": "t",
        "status": "interrupted",
        "interruptKind": "approval",
        "requestId": "r",
    }
    asked = lines["input.requested"]["data"]
    assert asked["requestId"] == "r" and asked["toolName"] == "pay" and asked["args"] == {"a_b": 1}
    assert asked["prompt"] == "May I?" and "message" not in asked and asked["allowEdits"] is False
    waiting = stored["session.waiting"]
    assert lines["session.waiting"]["data"] == {
        "parked": True,
        "reason": "parked",
        "continuationToken": f"zhin:{waiting['continuation_token']}",
        "pendingRequestIds": ["r"],
    }


@pytest.mark.parametrize(
    ("options", "decision", "approved"),
    [
        ({"allow_edits": True}, {"action": "approve", "edited_args": {"a_b": 1}}, True),
        ({}, {"action": "reject"}, False),
        ({"kind": "question"}, {"action": "respond", "response": {"a_b": 1}}, True),
        ({"kind": "question"}, {"action": "respond", "response": False}, False),
    ],
)
def test_a_decision_is_shown_with_what_it_means(api, options, decision, approved):
    sid = start(api)["sessionId"]
    api.ask(sid, "r", **options)
    assert api.decide(sid, "r", **decision).status_code == 200
    shown = data_of(api, sid, "input.completed")
    assert shown["requestId"] == "r" and shown["approved"] is approved and shown["action"] == decision["action"]
    assert shown["decision"]["editedArgs"] == decision.get("edited_args")
    assert shown["decision"]["response"] == decision.get("response")


def test_what_ended_without_a_person_was_not_approved(api, eventually):
    sid, late = start(api)["sessionId"], start(api)["sessionId"]
    api.publish(sid, TURN)
    api.ask(sid, "r")
    require(api, sid, "a")
    api.publish(sid, {"type": "session.completed"})
    api.ask(late, "r", expires_in_ms=50)
    require(api, late, "a", expires_in_ms=50)
    eventually(lambda: api.types(late).count("input.expired") == 2)
    for each in (sid, late):
        assert data_of(api, each, "input.completed") == {"requestId": "r", "approved": False}
        assert data_of(api, each, "authorization.completed") == {"requestId": "a", "success": False}
        assert "input.expired" not in {line["type"] for line in read(api, each)}


def test_a_stream_begins_at_its_index_and_closes_when_nothing_is_to_come(api):
    sid = start(api)["sessionId"]
    api.publish(sid, TURN, END)
    whole = read(api, sid)
    assert len(whole) == len(api.types(sid)) and whole[-1]["type"] == "session.waiting"
    for index in (0, 3, len(whole) - 1, len(whole), len(whole) + 5, 10**15, 10**4_000):
        assert read(api, sid, startIndex=index) == whole[index:]
    api.publish(sid, {"type": "session.failed"})
    assert read(api, sid, startIndex=len(whole))[-1]["type"] == "session.failed"


@pytest.mark.parametrize("index", ["-1", "x", "1.5", "", " 1", "1e3", "9" * 20 + "x"])
def test_a_garbled_index_is_no_full_replay(api, index):
    sid = start(api)["sessionId"]
    refused(api.get(f"{BASE}/session/{sid}/stream", params={"startIndex": index}), 400, "INVALID_START_INDEX")


def test_a_running_session_is_followed_until_it_waits(api, server):
    sid = start(api)["sessionId"]

    def work():
        with server.client() as other:
            other.publish(sid, TURN)
            for _ in range(30):
                other.publish(sid, {"type": "message.appended", "data": {"message_delta": "x"}})
            other.publish(sid, END)

    worker = threading.Thread(target=work)
    worker.start()
    lines = read(api, sid)
    worker.join()
    assert [line["type"] for line in lines] == api.types(sid)
    assert lines[5]["data"] == {"messageDelta": "x"}


def test_a_running_session_beats_and_closes_although_its_index_is_never_reached(api, server):
    sid = start(api)["sessionId"]
    with api.stream("GET", f"{BASE}/session/{sid}/stream", params={"startIndex": 50}, timeout=20) as answer:
        lines = answer.iter_lines()
        assert [next(lines), next(lines)] == ["", ""], "blank lines, which the client passes over"
        with server.client() as other:
            other.publish(sid, TURN, END)
        assert all(not line for line in lines)


def test_a_long_session_is_told_whole(api):
    sid = start(api)["sessionId"]
    api.publish(sid, *[{"type": "a.b", "data": {"x": "y" * 3_000}}] * 900)
    api.publish(sid, TURN, END)
    assert [line["type"] for line in read(api, sid)] == api.types(sid)


def test_head_tells_of_the_stream(api):
    sid = start(api)["sessionId"]
    answer = api.head(f"{BASE}/session/{sid}/stream")
    assert answer.status_code == 200 and answer.headers["x-zhin-session-id"] == sid


def test_retries_hear_the_first_answer(api):
    key = {"Idempotency-Key": f"k-{time.time_ns()}"}
    first = api.post(f"{BASE}/session", json={"message": "m"}, headers=key)
    again = api.post(f"{BASE}/session", json={"message": "m"}, headers=key)
    assert again.json() == first.json() and again.headers["idempotency-replayed"] == "true"
    sid, token = first.json()["sessionId"], first.json()["continuationToken"]
    body = {"continuationToken": token, "message": "n"}
    replies = [api.post(f"{BASE}/session/{sid}", json=body, headers=key) for _ in range(2)]
    assert replies[0].json() == replies[1].json() and replies[1].headers["idempotency-replayed"] == "true"
    refused(
        api.post(f"{BASE}/session/{sid}", json={**body, "message": "o"}, headers=key), 422, "IDEMPOTENCY_KEY_REUSED"
    )
    bad = {"Idempotency-Key": "x" * 300}
    refused(api.post(f"{BASE}/session", json={"message": "m"}, headers=bad), 400, "INVALID_REQUEST")


def test_who_decides_is_the_person_behind_the_console(api):
    sid = start(api)["sessionId"]
    api.ask(sid, "r")
    body = {"requestId": "r", "approved": True}
    api.post(f"{BASE}/session/{sid}/input", json=body, headers={"Layby-Actor": "alice"})
    assert api.get(f"/v1/sessions/{sid}/calls/r").json()["decision"]["by"] == "alice"
    refused(decide(api, sid, **body), 409, "REQUEST_ALREADY_DECIDED")


@pytest.mark.parametrize(
    ("error", "status", "code", "headers"),
    [
        (RuntimeError("secret of the house"), 500, "INTERNAL_ERROR", {}),
        (InternalError(), 500, "INTERNAL_ERROR", {}),
        (StoreUnavailable("later"), 503, "STORE_UNAVAILABLE", {"retry-after": "1"}),
        (Overloaded("later"), 503, "OVERLOADED", {"retry-after": "1"}),
        (StoreFull("full"), 507, "STORE_FULL", {}),
        (Unauthorized("no key"), 401, "UNAUTHORIZED", {"www-authenticate": 'Bearer realm="layby"'}),
        (
            MissingScope("needs decide", scope="decide"),
            403,
            "MISSING_SCOPE",
            {"www-authenticate": 'Bearer realm="layby", error="insufficient_scope", scope="decide"'},
        ),
    ],
)
def test_every_fault_has_the_form_of_the_mount(error, status, code, headers):
    async def fail(_):
        raise error

    app = ErrorBoundary(Router([Route("GET", "/zhin/x", guarded(fail))]), Metrics(), BodyBudget(1024))

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/zhin/x")

    answer = refused(asyncio.run(ask()), status, code)
    assert "secret" not in answer.text
    assert all(answer.headers[name].startswith(value) for name, value in headers.items())
