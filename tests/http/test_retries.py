"""The same request again, by its Idempotency-Key."""

from __future__ import annotations

import uuid

import pytest
from redis import Redis

from eventstore.embedded.data_directory import DataDirectory


@pytest.fixture
def key():
    return {"Idempotency-Key": f"key {uuid.uuid4().hex}"}


def test_a_retried_creation_finds_the_first_session(api, key):
    first, again = (api.post("/v1/sessions", json={"agent": "a"}, headers=key) for _ in range(2))
    assert again.json() == first.json() and again.status_code == 201
    assert again.headers["location"] == first.headers["location"] == f"/v1/sessions/{first.json()['session_id']}"
    assert "idempotency-replayed" not in first.headers and again.headers["idempotency-replayed"] == "true"
    assert first.json()["session_id"].startswith("ses_") and len(first.json()["session_id"]) == 30


def test_a_creation_with_another_body_is_not_a_retry(api, key, problem):
    api.post("/v1/sessions", json={"agent": "a"}, headers=key)
    problem(api.post("/v1/sessions", json={"agent": "b"}, headers=key), 422, "idempotency-key-reused")
    problem(api.post("/v1/sessions", json={"agent": "a", "x": 1}, headers=key), 422, "invalid-request")


def test_somebody_elses_key_is_another_one(api, key):
    sessions = {
        api.post("/v1/sessions", json={}, headers={**key, **person}).json()["session_id"]
        for person in ({}, {"Layby-Actor": "ann"}, {"Layby-Actor": "bob"})
    }
    assert len(sessions) == 3


def test_a_key_that_was_forgotten_makes_a_new_session(new_server, key):
    server = new_server()
    engine = Redis(unix_socket_path=str(DataDirectory(server.data_dir).socket()))
    with server.client() as api:
        made = list[str]()
        for _ in range(3):
            made.append(api.post("/v1/sessions", json={}, headers=key).json()["session_id"])
            forgotten = [name for name in engine.scan_iter("*") if b":dedup" in name]
            assert engine.delete(*forgotten)
        assert len(set(made)) == 3
        last = api.post("/v1/sessions", json={}, headers=key).json()["session_id"]
        assert api.post("/v1/sessions", json={}, headers=key).json()["session_id"] == last


def test_a_retry_does_not_bring_back_what_was_deleted(api, key, problem):
    sid = api.post("/v1/sessions", json={}, headers=key).json()["session_id"]
    assert api.delete(f"/v1/sessions/{sid}").status_code == 204
    problem(api.post("/v1/sessions", json={}, headers=key), 410, "session-deleted")


def test_every_post_can_be_retried(api, key):
    sid = api.create(session_id=uuid.uuid4().hex)
    iid = api.ask(sid, tool_args={"n": 1})
    base = f"/v1/sessions/{sid}/calls/{iid}"
    token = api.get(f"/v1/sessions/{sid}").json()["continuation_token"]
    for path, body in (
        (f"/v1/sessions/{sid}/messages", {"continuation_token": token, "message": "m"}),
        (f"{base}/decision", {"action": "approve"}),
        (f"{base}/claim", {"owner": "w"}),
        (f"{base}/release", {"attempt": 1}),
        (f"{base}/claim", {"owner": "w"}),
        (f"/v1/sessions/{sid}/events", [{"type": "session.completed"}]),
    ):
        before = len(api.types(sid))
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        first, again = (api.post(path, json=body, headers=headers) for _ in range(2))
        assert first.is_success and again.status_code == first.status_code, (path, again.text)
        assert again.content == first.content and again.headers["idempotency-replayed"] == "true"
        assert len(api.types(sid)) > before, "the first one took effect"


def test_the_same_key_on_another_path_is_another_key(api, key):
    one, two = api.create(), api.create()
    for sid in (one, two):
        answer = api.publish(sid, {"type": "a.b"}, headers=key)
        assert answer.status_code == 201 and "idempotency-replayed" not in answer.headers


@pytest.mark.parametrize("value", [b"", b"x" * 201, "schlüssel".encode(), b"a\tb"])
def test_a_garbled_key_is_refused(api, problem, value):
    answer = problem(api.post("/v1/sessions", json={}, headers=[(b"Idempotency-Key", value)]), 400, "invalid-request")
    assert [error["header"] for error in answer["errors"]] == ["Idempotency-Key"]


@pytest.fixture
def named(api):
    """Creates a session of this id, with a key."""

    def create(key, **body):
        return api.post("/v1/sessions", json=body, headers=key)

    return create


@pytest.mark.parametrize("first_named", [True, False])
@pytest.mark.parametrize("second_named", [True, False])
def test_one_key_makes_one_session_whatever_the_bodies_name(api, named, key, problem, first_named, second_named):
    ids = [uuid.uuid4().hex, uuid.uuid4().hex]
    first, second = (
        {"session_id": name, "agent": name} if given else {"agent": name}
        for name, given in zip(ids, (first_named, second_named), strict=True)
    )
    made = named(key, **first)
    assert made.status_code == 201
    problem(named(key, **second), 422, "idempotency-key-reused")
    assert api.get(f"/v1/sessions/{ids[1]}").status_code == 404
    again = named(key, **first)
    assert again.headers["idempotency-replayed"] == "true" and again.json() == made.json()


def test_a_refused_creation_gives_its_key_free(api, named, key, problem):
    taken, free = api.create(session_id=uuid.uuid4().hex), uuid.uuid4().hex
    problem(named(key, session_id=taken), 409, "session-exists")
    assert named(key, session_id=free).status_code == 201
    problem(named(key, session_id=taken), 422, "idempotency-key-reused")


def test_a_named_session_that_was_deleted_stays_so_for_its_retry(api, named, key, problem):
    sid = uuid.uuid4().hex
    assert named(key, session_id=sid).status_code == 201
    api.delete(f"/v1/sessions/{sid}")
    problem(named(key, session_id=sid), 410, "session-deleted")
    problem(named(key, session_id=sid), 410, "session-deleted")


def test_the_same_key_belongs_to_each_person_anew(api, named, key):
    for person in ("ann", "bob"):
        assert named({**key, "Layby-Actor": person}, session_id=uuid.uuid4().hex).status_code == 201


def test_keys_are_held_for_a_day(new_server, key):
    server = new_server()
    engine = Redis(unix_socket_path=str(DataDirectory(server.data_dir).socket()))
    with server.client() as api:
        api.post("/v1/sessions", json={"session_id": "s1"}, headers=key)
        held = list(engine.scan_iter("*:dedup*"))
        assert len(held) == 4, "two for the session, two for the place that the key would take"
        assert all(86_300_000 < engine.pttl(name) <= 86_400_000 for name in held)
        assert engine.delete(*held)
        assert api.post("/v1/sessions", json={"session_id": "s2"}, headers=key).status_code == 201


def test_one_key_completes_one_authorization_whatever_session_the_body_names(api, key):
    name, sessions = uuid.uuid4().hex, [api.create() for _ in range(2)]
    for sid in sessions:
        asked = {"interrupt_id": name, "connection": "mail", "expires_in_ms": 60_000}
        assert api.publish(sid, {"type": "authorization.required", "data": asked}).status_code == 201
    url = f"/zhin/v1/authorization/{name}/complete"
    first, other, again = (
        api.post(url, json={"success": True, "sessionId": sid}, headers=key)
        for sid in (sessions[0], sessions[1], sessions[0])
    )
    assert first.status_code == 200
    assert (other.status_code, other.json()["error"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert again.headers["idempotency-replayed"] == "true"
    assert api.get(f"/v1/sessions/{sessions[1]}/calls/{name}").json()["status"] == "PENDING_APPROVAL"
