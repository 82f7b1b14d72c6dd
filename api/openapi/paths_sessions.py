"""Routes of sessions."""

from __future__ import annotations

from api.openapi.build import json_content, ref
from api.openapi.routes import Route, gives, reply

TAG = "sessions"
ONE = "/v1/sessions/{session_id}"


def session_routes() -> list[Route]:
    return [_create(), _list(), _snapshot(), _delete(), _steps(), _calls(), _message()]


def _create() -> Route:
    return Route(
        method="post",
        path="/v1/sessions",
        name="createSession",
        summary="Create a session",
        tag=TAG,
        scope="publish",
        body=json_content(ref("CreateSession")),
        answers={201: gives("CreatedSession", "Created.", "Location")},
        problems=("session-exists", "session-deleted"),
    )


def _list() -> Route:
    return Route(
        method="get",
        path="/v1/sessions",
        name="listSessions",
        summary="List sessions, newest activity first",
        tag=TAG,
        scope="read",
        parameters=("session_status", "parked", "agent", "limit", "cursor"),
        answers={200: gives("SessionList", "One page.")},
    )


def _snapshot() -> Route:
    return Route(
        method="get",
        path=ONE,
        name="getSession",
        summary="Read a session, as it is or as it was",
        description="Includes every event acknowledged before the request.",
        tag=TAG,
        scope="read",
        parameters=("at", "at_time", "If-None-Match"),
        answers={
            200: gives("SessionSnapshot", "The session.", "ETag"),
            304: reply("Still the version that is known.", None, "ETag"),
        },
        problems=("no-such-point",),
    )


def _delete() -> Route:
    return Route(
        method="delete",
        path=ONE,
        name="deleteSession",
        summary="Delete a session for good",
        description="Its id is never used again.",
        tag=TAG,
        scope="admin",
        answers={204: reply("Deleted.")},
    )


def _steps() -> Route:
    return Route(
        method="get",
        path=f"{ONE}/steps",
        name="listSteps",
        summary="List all steps of a session, oldest first",
        tag=TAG,
        scope="read",
        parameters=("limit", "cursor"),
        answers={200: gives("StepPage", "One page.")},
    )


def _calls() -> Route:
    return Route(
        method="get",
        path=f"{ONE}/calls",
        name="listCallsOfSession",
        summary="List all calls of a session, oldest first",
        tag=TAG,
        scope="read",
        parameters=("limit", "cursor"),
        answers={200: gives("CallPage", "One page.")},
    )


def _message() -> Route:
    return Route(
        method="post",
        path=f"{ONE}/messages",
        name="sendMessage",
        summary="Send a message to the agent",
        description="Taken while no turn is open, or while a call waits; it decides nothing.",
        tag=TAG,
        scope="publish",
        body=json_content(ref("SendMessage")),
        answers={200: gives("SentMessage", "Received; the token is the new one.")},
        problems=("session-terminal", "continuation-token-stale", "session-busy"),
    )
