"""Headers and query parameters that change what a request means."""

from __future__ import annotations

import pytest

EVENT = {"type": "a.b"}


@pytest.fixture
def sid(api):
    return api.create()


@pytest.mark.parametrize("value", ["7", 'W/"1"', '"x"', "", '"1", 2', '"1'])
def test_a_garbled_version_is_refused(api, sid, problem, value):
    answer = problem(api.publish(sid, EVENT, headers={"If-Match": value}), 400, "invalid-request")
    assert [error["header"] for error in answer["errors"]] == ["If-Match"]


def test_any_of_several_versions_will_do(api, sid, problem):
    assert api.publish(sid, EVENT, headers={"If-Match": "*"}).status_code == 201
    assert api.publish(sid, EVENT, headers={"If-Match": '"7", "2"'}).status_code == 201
    answer = problem(api.publish(sid, EVENT, headers={"If-Match": '"7", "2"'}), 412, "version-mismatch")
    assert answer["current_seq"] == 3
    problem(api.publish(sid, EVENT, headers={"If-Match": f'"{10**20}"'}), 412, "version-mismatch")


def test_a_known_version_is_not_sent_again(api, sid):
    path = f"/v1/sessions/{sid}"
    for known in ('"1"', 'W/"1"', '"0", "1"', "*"):
        answer = api.get(path, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", '"1"')
    for other in ('"2"', '"1-gzip"'):
        assert api.get(path, headers={"If-None-Match": other}).status_code == 200


def test_a_garbled_known_version_is_refused(api, sid, problem):
    answer = problem(api.get(f"/v1/sessions/{sid}", headers={"If-None-Match": "1"}), 400, "invalid-request")
    assert [error["header"] for error in answer["errors"]] == ["If-None-Match"]


@pytest.mark.parametrize(("sent", "name"), [("Zoë".encode(), "Zoë"), (b"Zo\xeb", "Zoë"), (b"x" * 200, "x" * 200)])
def test_the_person_behind_a_console_is_named(api, sid, sent, name):
    assert api.publish(sid, EVENT, headers=[(b"Layby-Actor", sent)]).status_code == 201
    event = api.page(sid)["events"][-1]
    assert (event["by"], event["via"]) == (name, "anonymous")


@pytest.mark.parametrize("sent", [b"", b"x" * 201, b"layby"])
def test_a_name_that_is_none_is_refused(api, sid, problem, sent):
    answer = problem(api.publish(sid, EVENT, headers=[(b"Layby-Actor", sent)]), 400, "invalid-request")
    assert [error["header"] for error in answer["errors"]] == ["Layby-Actor"]


@pytest.mark.parametrize(
    ("path", "query", "name"),
    [
        ("/v1/sessions", "limit=0", "limit"),
        ("/v1/sessions", "limit=1001", "limit"),
        ("/v1/sessions", "limit=ten", "limit"),
        ("/v1/sessions", "limit=", "limit"),
        ("/v1/sessions", "limit=+5", "limit"),
        ("/v1/sessions", "status=parked", "status"),
        ("/v1/sessions", "parked=1", "parked"),
        ("/v1/calls", "status=pending", "status"),
        ("/v1/sessions/{}", "at=0", "at"),
        ("/v1/sessions/{}", "at=1.0", "at"),
        ("/v1/sessions/{}", "at_time=yesterday", "at_time"),
        ("/v1/sessions/{}", "at=1&at_time=2026-01-01T00:00:00Z", "at_time"),
        ("/v1/sessions/{}/events", "from=-1", "from"),
        ("/v1/sessions/{}/events", "limit=10001", "limit"),
        ("/v1/sessions/{}/events", "order=up", "order"),
        ("/v1/sessions/{}/events", "types=step", "types"),
        ("/v1/sessions/{}/events", "types=", "types"),
        ("/v1/sessions/{}/events", "types=a.*.b", "types"),
        ("/v1/sessions/{}/events", "types=a.b,%20c.d", "types"),
        ("/v1/sessions/{}/stream", "from=0", "from"),
        ("/v1/sessions/{}/stream", "from=01", "from"),
        ("/v1/sessions/{}/stream", "from=%E0", "from"),
        ("/v1/sessions/{}/stream", "until=forever", "until"),
        ("/v1/sessions/{}/calls/x", "wait_ms=60001", "wait_ms"),
        ("/v1/sessions/{}/calls/x", "wait_ms=-1", "wait_ms"),
    ],
)
def test_a_wrong_parameter_is_named(api, sid, problem, path, query, name):
    answer = problem(api.get(f"{path.format(sid)}?{query}"), 400, "invalid-request")
    assert [error["parameter"] for error in answer["errors"]] == [name]


def test_of_a_repeated_parameter_the_last_counts(api, sid):
    assert api.get(f"/v1/sessions/{sid}/events?limit=x&limit=1").status_code == 200


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/x-ndjson"),
        ("application/json", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("application/x-ndjson, application/json;q=0.5", "application/x-ndjson"),
        ("application/json;q=0", "application/x-ndjson"),
        ("text/html", "application/x-ndjson"),
    ],
)
def test_the_form_of_a_page_is_chosen_by_accept(api, sid, accept, kind):
    assert api.get(f"/v1/sessions/{sid}/events", headers={"Accept": accept}).headers["content-type"] == kind
