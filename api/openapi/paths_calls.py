"""Routes of calls: look, decide, execute."""

from __future__ import annotations

from api.openapi.build import json_content, ref
from api.openapi.routes import Route, gives

TAG = "calls"
ONE = "/v1/sessions/{session_id}/calls/{interrupt_id}"


def call_routes() -> list[Route]:
    return [*_looks(), _decide(), _authorize(), _claim(), _release(), _result(), _settle()]


def _looks() -> list[Route]:
    return [_inbox(), _call(), _state_snapshot()]


def _inbox() -> Route:
    return Route(
        method="get",
        path="/v1/calls",
        name="listCalls",
        summary="The inbox: calls of all sessions, nearest deadline first",
        tag=TAG,
        scope="read",
        parameters=("call_status", "tool_name", "agent", "limit", "cursor"),
        answers={200: gives("Inbox", "One page.")},
    )


def _call() -> Route:
    return Route(
        method="get",
        path=ONE,
        name="getCall",
        summary="Read a call, or wait for its decision",
        tag=TAG,
        scope="read",
        parameters=("wait_ms",),
        answers={200: gives("Call", "The call.")},
        problems=("invalid-snapshot",),
    )


def _state_snapshot() -> Route:
    return Route(
        method="get",
        path=f"{ONE}/state_snapshot",
        name="getStateSnapshot",
        summary="Read the version 2 document of a call",
        tag=TAG,
        scope="read",
        answers={200: gives("StateSnapshotV2", "The document.")},
        problems=("invalid-snapshot",),
    )


def _decide() -> Route:
    return _acts(
        f"{ONE}/decision",
        "decide",
        "Approve, reject or answer a call",
        "decide",
        "Decide",
        "run-mismatch",
        "call-already-decided",
        "call-expired",
        "stale-view",
        description="Exactly one decision counts, for ever. The decider is the key, or its `Layby-Actor`.",
    )


def _authorize() -> Route:
    return _acts(
        "/v1/sessions/{session_id}/authorizations/{interrupt_id}/complete",
        "completeAuthorization",
        "Tell how an authorization went",
        "decide",
        "CompleteAuthorization",
        "call-already-decided",
        "call-expired",
    )


def _claim() -> Route:
    problems = ("not-approved", "result-already-recorded", "already-claimed", "outcome-unknown")
    summary = "Claim an approved call, to run it"
    return _acts(f"{ONE}/claim", "claim", summary, "execute", "Claim", *problems, answer="Claimed")


def _release() -> Route:
    problems = ("not-approved", "result-already-recorded", "fenced")
    return _acts(f"{ONE}/release", "release", "Give a claimed call back", "execute", "Release", *problems)


def _result() -> Route:
    problems = ("not-approved", "result-already-recorded", "fenced")
    return _acts(f"{ONE}/result", "recordResult", "Record the result", "execute", "Result", *problems)


def _settle() -> Route:
    return _acts(
        f"{ONE}/settle",
        "settle",
        "Settle a call whose outcome nobody knows",
        "admin",
        "Settle",
        "not-indeterminate",
    )


def _acts(
    path: str,
    name: str,
    summary: str,
    scope: str,
    body: str,
    *problems: str,
    answer: str = "Outcome",
    description: str = "",
) -> Route:
    """A route that moves one call on."""
    return Route(
        method="post",
        path=path,
        name=name,
        summary=summary,
        description=description,
        tag=TAG,
        scope=scope,
        body=json_content(ref(body)),
        answers={200: gives(answer, "Done, or done before.")},
        problems=("invalid-snapshot", *problems),
    )
