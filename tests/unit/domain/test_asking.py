"""From what a publisher sends to the request that is stored."""

from __future__ import annotations

import pytest

from eventstore.domain.draft import Policy
from eventstore.domain.errors import IllegalTransition, InterruptExists, InvalidRequest, InvalidSnapshot, TooLarge
from eventstore.domain.schemas import response_schema
from eventstore.domain.values import json_text, timestamps
from tests.unit.domain.given import (
    ANNA,
    DAY,
    HOUR,
    NOON,
    approve,
    ask,
    connect,
    event,
    given,
    publish,
    question,
    respond,
    turn,
)

DIGEST = json_text.digest({"tool_name": "refund", "tool_args": {"amount": 100}})
LONG = json_text.LongInteger("7" * 6_000)


def test_an_approval_is_stored_with_every_default():
    given().when(ask()).then(
        (
            "input.requested",
            {
                "interrupt_id": "c1",
                "kind": "approval",
                "tool_name": "refund",
                "tool_args": {"amount": 100},
                "options": ["approve", "reject"],
                "run_id": "run-1",
                "thread_id": "s1",
                "allow_edits": False,
                "idempotent": False,
                "expires_at": timestamps.text(NOON + DAY),
                "args_digest": DIGEST,
            },
        ),
        "session.waiting",
    )


def test_a_question_needs_no_tool():
    given().when(question(message="Which one?")).then(
        (
            "input.requested",
            {
                "kind": "question",
                "tool_name": "question",
                "tool_args": {},
                "options": ["respond", "reject"],
                "message": "Which one?",
            },
        ),
        "session.waiting",
    )


def test_an_authorization_is_stored_as_a_call():
    given().when(connect(auth_url="https://x.test", scope="repo", expires_in_ms=HOUR)).then(
        (
            "authorization.required",
            {
                "kind": "authorization",
                "tool_name": "github",
                "tool_args": {"auth_url": "https://x.test", "scope": "repo"},
                "options": [],
                "connection": "github",
                "auth_url": "https://x.test",
                "scope": "repo",
                "run_id": "run-1",
                "expires_at": timestamps.text(NOON + HOUR),
                "args_digest": json_text.digest(
                    {"tool_name": "github", "tool_args": {"auth_url": "https://x.test", "scope": "repo"}}
                ),
            },
        ),
        "session.waiting",
    )


def test_an_authorization_needs_only_a_connection():
    assert given().when(connect()).call("a1").tool_args == {}
    given().when(connect(connection=None)).refused(InvalidRequest, "/0/data/connection")
    given().when(connect(scope=[1])).refused(InvalidRequest, "/0/data/scope")


def test_what_was_given_is_kept():
    given().when(
        ask(run_id="r9", thread_id="t9", options=["respond"], allow_edits=True, idempotent=True, message={"a": 1})
    ).then(
        (
            "input.requested",
            {
                "run_id": "r9",
                "thread_id": "t9",
                "options": ["respond"],
                "allow_edits": True,
                "idempotent": True,
                "message": {"a": 1},
            },
        ),
        "session.waiting",
    )


def test_unknown_fields_are_kept_and_control_fields_are_not():
    story = given().when(ask(ticket="T-1", myOwn=[None], expires_in_ms=HOUR, state_snapshot=None))
    data = story.events[0].data
    assert {"ticket": "T-1", "myOwn": [None]}.items() <= data.items()
    assert data.keys().isdisjoint({"expires_in_ms", "state_snapshot", "message", "response_schema"})


def test_a_publishers_own_field_never_replaces_a_resolved_one():
    given().when(ask(args_digest="sha256:0")).then(("input.requested", {"args_digest": DIGEST}), "session.waiting")
    given().when(connect(kind="approval", options=["approve"], tool_name="x", tool_args=1, args_digest="0")).then(
        ("authorization.required", {"kind": "authorization", "options": [], "tool_name": "github", "tool_args": {}}),
        "session.waiting",
    )


def test_a_publishers_own_field_means_nothing_on_an_authorization():
    call = given(connect(allow_edits="yes", idempotent=7, response_schema="?")).call("a1")
    assert (call.allow_edits, call.idempotent, call.response_schema) == (False, False, None)


@pytest.mark.parametrize(
    ("sent", "ours"),
    [
        ({"request_id": "x"}, {"interrupt_id": "x"}),
        ({"requestId": "x"}, {"interrupt_id": "x"}),
        ({"interruptId": "x"}, {"interrupt_id": "x"}),
    ],
)
@pytest.mark.parametrize("request_", [ask("?"), connect("?")])
def test_an_interrupt_id_has_older_names(request_, sent, ours):
    data = {name: value for name, value in request_.data.items() if name != "interrupt_id"}
    given().when(event(request_.type, **data, **sent)).then((request_.type, ours), "session.waiting")


def test_camel_case_and_older_names_are_stored_as_ours():
    story = given().when(
        event(
            "input.requested",
            requestId="c1",
            toolName="refund",
            args={"toolName": "kept inside"},
            prompt="Sure?",
            expiresInMs=HOUR,
            runId="r9",
            threadId="t9",
            responseSchema={"type": "string"},
            allowEdits=True,
        )
    )
    story.then(
        (
            "input.requested",
            {
                "interrupt_id": "c1",
                "tool_name": "refund",
                "tool_args": {"toolName": "kept inside"},
                "message": "Sure?",
                "expires_at": timestamps.text(NOON + HOUR),
                "run_id": "r9",
                "thread_id": "t9",
                "response_schema": {"type": "string"},
                "allow_edits": True,
            },
        ),
        "session.waiting",
    )
    assert not any(name != name.lower() for name in story.events[0].data)


@pytest.mark.parametrize(
    "twice",
    [{"toolName": "x"}, {"args": {}}, {"toolArgs": {}}, {"requestId": "c1"}, {"request_id": "c1"}],
)
def test_one_field_in_two_spellings_is_refused(twice):
    given().when(ask(**twice)).refused(InvalidRequest, f"/0/data/{next(iter(twice))}")


def test_null_in_another_spelling_is_no_second_value():
    given().when(ask(toolName=None, requestId=None)).then(
        ("input.requested", {"tool_name": "refund"}), "session.waiting"
    )


@pytest.mark.parametrize(
    ("fault", "pointer"),
    [
        ({"tool_name": None}, "tool_name"),
        ({"tool_args": None}, "tool_args"),
        ({"tool_args": []}, "tool_args"),
        ({"tool_name": ""}, "tool_name"),
        ({"tool_name": 7}, "tool_name"),
        ({"kind": "wish"}, "kind"),
        ({"kind": "authorization"}, "kind"),
        ({"options": []}, "options"),
        ({"options": ["approve", "approve"]}, "options"),
        ({"options": ["cancel"]}, "options/0"),
        ({"allow_edits": "yes"}, "allow_edits"),
        ({"idempotent": 1}, "idempotent"),
        ({"run_id": 7}, "run_id"),
        ({"interrupt_id": "a/b"}, "interrupt_id"),
        ({"interrupt_id": ""}, "interrupt_id"),
        ({"interrupt_id": "x" * 201}, "interrupt_id"),
        ({"interrupt_id": "a\nb"}, "interrupt_id"),
        ({"interrupt_id": "a\x7f"}, "interrupt_id"),
        ({"response_schema": "string"}, "response_schema"),
        ({"response_schema": {"type": "wat"}}, "response_schema"),
        ({"response_schema": {"$ref": "https://elsewhere.test/schema"}}, "response_schema"),
        ({"response_schema": {"pattern": "(?=a)"}}, "response_schema"),
        ({"response_schema": {"maximum": LONG}}, "response_schema"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": "2026-11-30"}, "expires_at"),
        ({"expires_at": 7}, "expires_at"),
        ({"expires_in_ms": "7"}, "expires_in_ms"),
        ({"expires_in_ms": 1.5}, "expires_in_ms"),
        ({"expires_in_ms": True}, "expires_in_ms"),
        ({"expires_in_ms": LONG}, "expires_in_ms"),
    ],
)
def test_a_faulty_field_is_named(fault, pointer):
    given().when(ask(**fault)).refused(InvalidRequest, f"/0/data/{pointer}")


def test_a_faulty_field_is_named_as_it_was_sent():
    given().when(event("input.requested", requestId="a/b", toolName=7, args={})).refused(
        InvalidRequest, "/0/data/requestId", "/0/data/toolName"
    )


def test_an_approval_without_a_tool_names_both_fields():
    given().when(event("input.requested", interrupt_id="c1")).refused(
        InvalidRequest, "/0/data/tool_name", "/0/data/tool_args"
    )


@pytest.mark.parametrize("name", ["x" * 200, "ü", "a b", "a.b:c", "..", "%2F"])
def test_an_interrupt_id_is_free_otherwise(name):
    given().when(ask(name)).leaves(waiting=[name])


def test_response_schemas_true_and_false_are_schemas():
    for schema in (True, False, {}):
        given().when(question(response_schema=schema)).then("input.requested", "session.waiting")


def test_a_deadline_may_be_a_time_at_any_offset():
    given().when(ask(expires_at="2026-11-29T14:30:00.5+01:30")).then(
        ("input.requested", {"expires_at": "2026-11-29T13:00:00.500Z"}), "session.waiting"
    )


@pytest.mark.parametrize("name", ["expires_at", "expiresAt"])
@pytest.mark.parametrize("away", [-1, 0, 30 * DAY + 1])
def test_a_deadline_in_the_past_or_too_far_away_is_refused(name, away):
    given().when(ask(**{name: timestamps.text(NOON + away)})).refused(InvalidRequest, f"/0/data/{name}")


@pytest.mark.parametrize("away", [-1, 0, 30 * DAY + 1, 10**4_000])
def test_a_duration_in_the_past_or_too_long_is_refused(away):
    given().when(connect(expires_in_ms=away)).refused(InvalidRequest, "/0/data/expires_in_ms")


@pytest.mark.parametrize("away", [1, 30 * DAY])
def test_a_deadline_may_be_as_near_and_as_far_as_allowed(away):
    assert given().when(ask(expires_in_ms=away)).call().expires_at == NOON + away


def test_two_deadlines_are_one_too_many():
    given().when(ask(expires_in_ms=HOUR, expires_at=timestamps.text(NOON + HOUR))).refused(
        InvalidRequest, "/0/data/expires_in_ms"
    )


def test_the_operator_sets_the_limits():
    policy = Policy(default_expiry_ms=HOUR, max_expiry_ms=2 * HOUR)
    assert given(policy=policy).when(ask()).call().expires_at == NOON + HOUR
    given(policy=policy).when(ask(expires_in_ms=2 * HOUR + 1)).refused(InvalidRequest, "/0/data/expires_in_ms")


def test_asking_the_same_again_is_no_new_request():
    given(ask()).when(ask()).then().answers(
        first_seq=2,
        last_seq=2,
        events=[{"seq": 2, "type": "input.requested", "interrupt_id": "c1", "status": "PENDING_APPROVAL"}],
        duplicate=True,
    )


def test_asking_again_is_the_same_in_another_spelling_or_with_other_extras():
    given(ask()).when(
        event("input.requested", requestId="c1", toolName="refund", args={"amount": 100.0}, message="again")
    ).then().answers(duplicate=True)


def test_asking_again_needs_no_deadline_in_the_future():
    same = ask(expires_at=timestamps.text(NOON + HOUR))
    given(same).at(NOON + 2 * HOUR).when(same).then().answers(duplicate=True)


def test_asking_again_tells_the_status_for_ever():
    story = given(ask(), approve()).when(ask()).then()
    assert story.result["events"][0]["status"] == "APPROVED_EXECUTING"


def test_asking_again_beside_something_new_spans_what_is_new():
    story = given(ask(), turn()).when(publish(ask(), event("message.appended"))).then("message.appended")
    story.answers(
        first_seq=6,
        last_seq=6,
        events=[
            {"seq": 2, "type": "input.requested", "interrupt_id": "c1", "status": "PENDING_APPROVAL"},
            {"seq": 6, "type": "message.appended"},
        ],
        duplicate=False,
    )


def test_asking_twice_in_one_batch_asks_once():
    given().when(publish(ask(), ask())).then("input.requested", "session.waiting").answers(
        first_seq=2, last_seq=3, duplicate=False
    )


@pytest.mark.parametrize(
    "other",
    [{"tool_name": "pay"}, {"tool_args": {"amount": 101}}, {"tool_args": {"amount": True}}, {"run_id": "r2"}],
)
def test_an_id_is_not_taken_twice(other):
    given(ask()).when(ask(**other)).refused(InterruptExists)


def test_an_authorization_is_not_the_same_as_an_approval():
    given(ask("x", tool_name="github", tool_args={})).when(connect("x")).refused(InterruptExists)
    given(connect("x")).when(connect("x")).then().answers(duplicate=True)


def test_an_ended_session_takes_no_request_not_even_again():
    given(ask(), event("session.completed")).when(ask()).refused(IllegalTransition, index=0)


def test_a_batch_looks_for_all_of_its_calls_at_once():
    story = given().when(publish(*(ask(f"c{number}") for number in range(5))))
    assert story.loads == [["c0", "c1", "c2", "c3", "c4"]]


def test_a_broken_call_is_not_asked_again():
    given(ask()).damaged().when(ask()).refused(InvalidSnapshot)


def test_integers_of_any_size_are_asked_about():
    story = given(ask(tool_args={"amount": LONG}), question(message=LONG))
    assert story.call().tool_args == {"amount": LONG}
    story.when(ask(tool_args={"amount": LONG})).answers(duplicate=True)


def test_an_answer_may_hold_an_integer_of_any_size():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 5}}}
    story = given(question(response_schema=schema))
    story.when(respond({"n": json_text.LongInteger("-" + "7" * 6_000)}), by=ANNA).refused(InvalidRequest, "/response/n")
    story.when(respond({"n": LONG}), by=ANNA).then("input.completed", "session.waiting")
    assert story.call("q1").result == {"n": LONG}
    story.when(respond({"n": LONG}), by=ANNA).answers(outcome="duplicate")


def test_a_response_is_checked_once_however_often_it_is_decided(monkeypatch):
    looked = list[object]()
    monkeypatch.setattr(response_schema, "errors", lambda schema, *_: looked.append(schema) or [])
    command = respond("yes")
    for schema in ({"const": 1}, {"const": 1}, {"const": True}):
        given(question(response_schema=schema)).when(command, by=ANNA).then("input.completed", "session.waiting")
    assert looked == [{"const": 1}, {"const": True}]


def test_a_batch_of_costly_schemas_is_too_large():
    schema = {"pattern": r"^[\p{L} .,-]{1,200}$"}
    few, many = ([question(f"q{n}", response_schema=schema) for n in range(count)] for count in (2, 3))
    given().when(publish(*many)).refused(TooLarge)
    given().when(publish(*few))


def test_calls_that_would_make_the_service_repeat_too_much_are_refused():
    """Each new call is told with all that wait: a thousand long names would be a thousand lists of them."""
    asks = [ask(f"{number:04}" + "x" * 196) for number in range(1_000)]
    given().when(publish(*asks)).refused(TooLarge)


@pytest.mark.parametrize("name", ["tool_name", "run_id", "thread_id", "toolName", "runId"])
def test_names_have_a_longest(name):
    data = {"interrupt_id": "c1", "tool_name": "t", "tool_args": {}}
    if name == "toolName":
        del data["tool_name"]
    given().when(event("input.requested", **{**data, name: "é" * 200})).then("input.requested", "session.waiting")
    given().when(event("input.requested", **{**data, name: "é" * 201})).refused(InvalidRequest, f"/0/data/{name}")


def test_a_connection_has_a_longest_name():
    given().when(connect(connection="x" * 201)).refused(InvalidRequest, "/0/data/connection")
