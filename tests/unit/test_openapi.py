"""The OpenAPI document."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from api.app import ENDPOINTS
from api.http.problems import MEDIA_TYPE, render
from api.openapi.document import document
from api.openapi.examples import EXAMPLES
from eventstore.domain import errors
from eventstore.domain.errors import leaves

DOCUMENT = document(ENDPOINTS)
OPERATIONS = [
    pytest.param(operation, id=f"{method.upper()} {path}")
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]
ROUTES = """
    GET POST /v1/sessions
    GET DELETE /v1/sessions/{session_id}
    GET /v1/sessions/{session_id}/steps
    GET /v1/sessions/{session_id}/calls
    POST /v1/sessions/{session_id}/messages
    GET POST /v1/sessions/{session_id}/events
    GET /v1/sessions/{session_id}/publish
    GET /v1/sessions/{session_id}/stream
    GET /v1/sessions/{session_id}/calls/{interrupt_id}
    GET /v1/sessions/{session_id}/calls/{interrupt_id}/state_snapshot
    POST /v1/sessions/{session_id}/calls/{interrupt_id}/decision
    POST /v1/sessions/{session_id}/calls/{interrupt_id}/claim
    POST /v1/sessions/{session_id}/calls/{interrupt_id}/release
    POST /v1/sessions/{session_id}/calls/{interrupt_id}/result
    POST /v1/sessions/{session_id}/calls/{interrupt_id}/settle
    POST /v1/sessions/{session_id}/authorizations/{interrupt_id}/complete
    GET /v1/calls
    GET /v1/stream
    GET /zhin/v1/health
    POST /zhin/v1/session
    POST /zhin/v1/session/{id}
    GET /zhin/v1/session/{id}/stream
    POST /zhin/v1/session/{id}/input
    POST /zhin/v1/authorization/{requestId}/complete
    GET /healthz
    GET /readyz
    GET /metrics
    GET /openapi.json
"""


def accepts(schema: str, instance: Any) -> bool:
    node = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    return Draft202012Validator(node).is_valid(instance)


def test_each_body_that_is_sent_has_an_example_that_fits():
    text = json.dumps(
        [item["requestBody"] for path in DOCUMENT["paths"].values() for item in path.values() if "requestBody" in item]
    )
    sent = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert sent == EXAMPLES.keys()
    assert [name for name, example in EXAMPLES.items() if not accepts(name, example)] == []


def test_it_is_valid_and_json():
    validate(json.loads(json.dumps(DOCUMENT)))


def test_it_has_every_route_and_no_other():
    wanted = {words[-1]: set(words[:-1]) for line in ROUTES.strip().splitlines() if (words := line.split())}
    assert {path: {m.upper() for m in item} for path, item in DOCUMENT["paths"].items()} == wanted


def test_every_reference_leads_somewhere_and_every_component_is_used_or_told():
    text = json.dumps(DOCUMENT)
    for group in ("parameters", "headers"):
        unused = [n for n in DOCUMENT["components"][group] if f'"#/components/{group}/{n}"' not in text]
        assert unused == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_succeeds_in_some_way(operation: dict[str, Any]):
    assert any(status == "101" or status.startswith("2") for status in operation["responses"])
    assert all("Layby-Request-Id" in answer["headers"] for answer in operation["responses"].values())


@pytest.mark.parametrize("operation", OPERATIONS)
def test_its_problems_stand_under_their_status(operation: dict[str, Any]):
    for status, answer in operation["responses"].items():
        for schema in _problems(answer):
            own = schema["allOf"][1]["properties"]
            assert int(status) in own["status"]["enum"]


def _problems(answer: dict[str, Any]) -> list[dict[str, Any]]:
    schema = answer.get("content", {}).get(MEDIA_TYPE, {}).get("schema", {})
    refs = schema.get("oneOf", [schema] if schema else [])
    return [DOCUMENT["components"]["schemas"][node["$ref"].rsplit("/", 1)[1]] for node in refs]


def test_every_problem_can_come_from_some_operation():
    """But for the two that come from no operation at all."""
    text = json.dumps(DOCUMENT["paths"])
    missing = {leaf.slug for leaf in leaves() if f'/Problem-{leaf.slug}"' not in text}
    assert missing == {"not-found", "method-not-allowed"}
    assert all(f"`{slug}`" in DOCUMENT["info"]["description"] for slug in missing)


def test_what_is_rendered_is_what_is_described():
    for error in (
        errors.InvalidRequest.header("If-Match", "is garbled"),
        errors.VersionMismatch("it is at 5", current_seq=5),
        errors.IllegalTransition("a turn is open", index=0, state="running", allowed=["turn.completed"]),
    ):
        body = json.loads(bytes(render(error, "/v1/sessions").body))
        assert accepts(f"Problem-{error.slug}", body)
        assert not accepts("Problem-not-found", body)


SNAPSHOT: dict[str, Any] = {
    "version": 2,
    "pending_tool_call": {
        "interrupt_id": "int-1",
        "tool_name": "srv.transfer",
        "tool_args": {},
        "status": "PENDING_APPROVAL",
        "expires_at": "2026-11-29T12:00:00.123Z",
        "decision": None,
        "result": None,
        "updated_at": "2026-11-29T12:00:00.123Z",
    },
    "run_context": {"thread_id": "t", "run_id": "r"},
}
ASK = {"interrupt_id": "int-1", "tool_name": "t", "tool_args": {}}


@pytest.mark.parametrize(
    ("schema", "good"),
    [
        ("StateSnapshotV2", SNAPSHOT),
        ("PublishEvent", {"type": "a.b"}),
        ("PublishEvent", {"type": "a.b", "data": None}),
        ("PublishEvent", {"type": "input.requested", "data": ASK}),
        ("PublishEvent", {"type": "input.requested", "data": {"requestId": "r", "toolName": "t", "args": {}}}),
        ("PublishEvent", {"type": "input.requested", "data": {"interrupt_id": "i", "kind": "question"}}),
        ("PublishEvent", {"type": "input.requested", "data": {"state_snapshot": SNAPSHOT}}),
        ("PublishEvent", {"type": "authorization.required", "data": {"requestId": "r", "connection": "github"}}),
        ("LineMessage", {"id": "1", "events": [{"type": "a.b"}], "expected_seq": None}),
        ("LineAnswer", {"id": "1", "first_seq": 2, "last_seq": 2, "events": [], "durability": "fsync"}),
        ("Decide", {"action": "approve", "note": None}),
        ("Decide", {"action": "respond", "response": None}),
        ("Result", {"result": None}),
        ("CreateSession", {}),
        ("CreateSession", {"session_id": "a:b", "steps": None}),
    ],
)
def test_what_the_protocol_takes_is_taken(schema: str, good: Any):
    assert accepts(schema, good)


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        ("StateSnapshotV2", {**SNAPSHOT, "version": 1}),
        ("StateSnapshotV2", {**SNAPSHOT, "extra": 1}),
        ("StateSnapshotV2", {**SNAPSHOT, "run_context": {"thread_id": "t"}}),
        ("PublishEvent", {"type": "nodots"}),
        ("PublishEvent", {"type": "a.b", "surprise": 1}),
        ("PublishEvent", {"type": "session.waiting"}),
        ("PublishEvent", {"type": "input.requested"}),
        ("PublishEvent", {"type": "input.requested", "data": {"interrupt_id": "i"}}),
        ("PublishEvent", {"type": "input.requested", "data": {**ASK, "interrupt_id": "a/b"}}),
        ("PublishEvent", {"type": "input.requested", "data": {**ASK, "options": ["red"]}}),
        ("PublishEvent", {"type": "input.requested", "data": {**ASK, "state_snapshot": SNAPSHOT}}),
        ("PublishEvent", {"type": "input.requested", "data": {**ASK, "options": []}}),
        ("LineMessage", {"id": 1, "events": [{"type": "a.b"}]}),
        ("LineMessage", {"id": "1", "events": []}),
        ("LineMessage", {"id": "1", "events": [{"type": "a.b"}], "more": 1}),
        ("Decide", {}),
        ("Decide", {"action": "yes"}),
        ("Decide", {"action": "respond"}),
        ("Decide", {"action": "approve", "response": 1}),
        ("Decide", {"action": "reject", "edited_args": {}}),
        ("Decide", {"action": "approve", "by": "me"}),
        ("Claim", {"owner": "w", "lease_ms": 99}),
        ("Result", {}),
        ("CreateSession", {"session_id": ".."}),
        ("CreateSession", {"surprise": 1}),
        ("FieldError", {"message": "m", "pointer": "/a", "header": "A"}),
    ],
)
def test_what_the_protocol_refuses_is_refused(schema: str, bad: Any):
    assert not accepts(schema, bad)


def test_a_decided_snapshot_is_no_request():
    call = SNAPSHOT["pending_tool_call"] | {"status": "REJECTED"}
    decided = {**SNAPSHOT, "pending_tool_call": call}
    assert accepts("StateSnapshotV2", decided)
    assert not accepts("PublishEvent", {"type": "input.requested", "data": {"state_snapshot": decided}})
