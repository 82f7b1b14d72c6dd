"""Routes of the Zhin mount. Its refusals are `{"ok":false,"error":"CODE"}` with the codes of its model; what is refused
before the mount is reached is a problem, as everywhere."""

from __future__ import annotations

from api.http.problems import MEDIA_TYPE
from api.openapi.build import Node, json_content, lines, ref
from api.openapi.routes import Route, gives, reply
from api.openapi.schemas_problems import problem_name

TAG = "zhin"
BASE = "/zhin/v1"
SESSION = BASE + "/session/{id}"

_SESSION_ID = "x-zhin-session-id"
_Codes = dict[int, tuple[str, ...]]
_DECIDED: _Codes = {409: ("REQUEST_ALREADY_DECIDED",), 410: ("REQUEST_EXPIRED", "SESSION_DELETED")}
_DELETED: _Codes = {410: ("SESSION_DELETED",)}


def zhin_routes() -> list[Route]:
    return [_health(), _start(), _continue(), _stream(), _input(), _authorization()]


def _health() -> Route:
    return Route(
        method="get",
        path=f"{BASE}/health",
        name="zhinHealth",
        summary="Whether the mount is there",
        tag=TAG,
        scope=None,
        problem_form=False,
        answers={200: gives("ZhinHealth", "It is."), 403: _refusal(403, ()), 500: _refusal(500, ())},
    )


def _start() -> Route:
    return Route(
        method="post",
        path=f"{BASE}/session",
        name="zhinStart",
        summary="Start a session with a message",
        tag=TAG,
        scope="publish",
        body=json_content(ref("ZhinStart")),
        problem_form=False,
        answers={200: gives("ZhinSession", "Started.", _SESSION_ID)} | _refusals(_POST | {400: ()}),
    )


def _continue() -> Route:
    refused = {
        400: ("SESSION_TERMINAL",),
        404: ("SESSION_NOT_FOUND",),
        409: ("CONTINUATION_TOKEN_STALE", "SESSION_BUSY"),
        **_DELETED,
    }
    return Route(
        method="post",
        path=SESSION,
        name="zhinContinue",
        summary="Send a message",
        tag=TAG,
        scope="publish",
        body=json_content(ref("ZhinContinue")),
        problem_form=False,
        answers={200: gives("ZhinSession", "Received.", _SESSION_ID)} | _refusals(_POST | refused),
    )


def _stream() -> Route:
    refused = {400: (), 404: ("SESSION_NOT_FOUND",), **_DELETED}
    content: Node = {"application/x-ndjson; charset=utf-8": lines("ZhinEvent", "One event a line.")}
    return Route(
        method="get",
        path=f"{SESSION}/stream",
        name="zhinStream",
        summary="Read the events from an index",
        description="Closes as soon as it is caught up and the session is waiting or ended.",
        tag=TAG,
        scope="read",
        parameters=("startIndex",),
        problem_form=False,
        answers={200: reply("Events.", content, _SESSION_ID)} | _refusals(refused),
    )


def _input() -> Route:
    refused = {400: (), 404: ("REQUEST_NOT_FOUND", "SESSION_NOT_FOUND"), **_DECIDED}
    return Route(
        method="post",
        path=f"{SESSION}/input",
        name="zhinInput",
        summary="Approve or reject a request",
        tag=TAG,
        scope="decide",
        body=json_content(ref("ZhinInput")),
        problem_form=False,
        answers={200: gives("ZhinInputTaken", "Decided.", _SESSION_ID)} | _refusals(_POST | refused),
    )


def _authorization() -> Route:
    refused = {400: (), 404: ("AUTHORIZATION_REQUEST_NOT_FOUND",), **_DECIDED}
    return Route(
        method="post",
        path=BASE + "/authorization/{requestId}/complete",
        name="zhinCompleteAuthorization",
        summary="Tell how an authorization went",
        tag=TAG,
        scope="decide",
        body=json_content(ref("ZhinComplete")),
        problem_form=False,
        answers={200: gives("ZhinCompleted", "Taken.")} | _refusals(_POST | refused),
    )


_ALWAYS: _Codes = dict.fromkeys((401, 403, 500, 503, 507), ())
_POST: _Codes = {408: (), 409: (), 413: (), 422: ()}
_BEFORE_THE_MOUNT = {403: "untrusted-origin", 408: "request-timeout"}


def _refusals(codes: _Codes) -> dict[int, Node]:
    return {status: _refusal(status, told) for status, told in sorted((_ALWAYS | codes).items())}


def _refusal(status: int, codes: tuple[str, ...]) -> Node:
    told = " or ".join(f"`{code}`" for code in codes)
    headers = {401: ("WWW-Authenticate",), 403: ("WWW-Authenticate",), 503: ("Retry-After",)}.get(status, ())
    content = json_content(ref("ZhinRefusal"))
    if slug := _BEFORE_THE_MOUNT.get(status):
        content |= {MEDIA_TYPE: {"schema": ref(problem_name(slug))}}
    return reply(f"Refused: {told}." if told else "Refused.", content, *headers)
