"""How this mount answers: `{"ok":true,…}`, or `{"ok":false,"error":"CODE"}` whatever went wrong."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http import problems
from api.http.json_schema import Node, ref
from api.http.router import Answering
from api.requests.bodies import encode, json_answer
from api.requests.descriptions import json_content, problem_content, refuses
from api.requests.endpoint import Endpoint, Problem, Received
from eventstore.commit.batch import Answer
from eventstore.domain import errors
from eventstore.domain.errors import InternalError, InvalidRequest, LaybyError, SessionNotFound
from eventstore.domain.values.field_types import SESSION_ID

log = logging.getLogger("layby.http")

BASE: Final = "/zhin/v1"
SESSION_HEADER: Final = "x-zhin-session-id"
_PASSED_ON: Final = ("WWW-Authenticate", "Retry-After")
_CODES: Final[Mapping[str, str]] = {
    "call-not-found": "REQUEST_NOT_FOUND",
    "call-already-decided": "REQUEST_ALREADY_DECIDED",
    "call-expired": "REQUEST_EXPIRED",
}
"""Where the model has another word for a problem; any other is called by its slug."""


class BadRequest(InvalidRequest):
    """A request that this mount does not take, with the word that says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code: str = code


def ok(answer: Answer | None = None, **members: Any) -> Response:
    """Success; an answer that repeats an earlier one says so."""
    replayed = {"Idempotency-Replayed": "true"} if answer and answer.replayed else None
    return json_answer(encode({"ok": True, **members}), 200, replayed)


def mounted(endpoint: Endpoint, codes: Mapping[str, str] = _CODES) -> Endpoint:
    """The endpoint as one of this mount: it refuses in this form, and so does its description."""
    answers = {**endpoint.answers, **_refusals(endpoint, codes)}
    return replace(endpoint, answers=answers, guard=partial(guarded, codes=codes))


def guarded(answering: Answering, codes: Mapping[str, str] = _CODES) -> Answering:
    """The same, with every fault in the form of this mount, and the header that names the session."""

    async def guard(request: Request) -> Response:
        try:
            response = await answering(request)
        except ClientDisconnect:
            raise
        except LaybyError as error:
            response = _refusal(error, codes)
        except Exception:
            log.exception("a request of the Zhin mount failed: %s %s", request.method, request.scope["path"])
            response = _refusal(InternalError(), codes)
        if name := getattr(request.state, "session_id", None):
            response.headers[SESSION_HEADER] = name
        return response

    return guard


def named(request: Request, session_id: str) -> str:
    """The answer to this request is about this session. Raises `SessionNotFound` for what can be no session's id."""
    if not SESSION_ID.fullmatch(session_id):
        raise SessionNotFound()
    request.state.session_id = session_id
    return session_id


def session_of(received: Received) -> str:
    """The session that the path names. Raises `SessionNotFound`."""
    return named(received.request, received.request.path_params["id"])


def _refusal(error: LaybyError, codes: Mapping[str, str]) -> Response:
    form = problems.headers(error)
    headers = {name: form[name] for name in _PASSED_ON if name in form}
    code = error.code if isinstance(error, BadRequest) else _code(error.slug, codes)
    return json_answer(encode({"ok": False, "error": code}), _status(error.slug), headers)


def _code(slug: str, codes: Mapping[str, str]) -> str:
    return codes.get(slug) or slug.upper().replace("-", "_")


def _status(slug: str) -> int:
    """As everywhere, but for two that the model answers with 400."""
    return 400 if slug in (InvalidRequest.slug, errors.SessionTerminal.slug) else problems.STATUS[slug]


_BEFORE_THE_MOUNT: Final[Mapping[int, Problem]] = {403: errors.UntrustedOrigin, 408: errors.RequestTimeout}
"""What is refused before the mount is reached, and is a problem as everywhere."""


def _refusals(endpoint: Endpoint, codes: Mapping[str, str]) -> dict[int, Node]:
    """One a status, as the document has them: the codes of the endpoint's own problems are listed."""
    told = defaultdict[int, list[str]](list)
    for problem in endpoint.all_problems:
        own = [f"`{_code(problem.slug, codes)}`"] if problem in endpoint.problems else []
        told[_status(problem.slug)] += own
    return {status: _described(status, list(dict.fromkeys(found))) for status, found in told.items()}


def _described(status: int, codes: list[str]) -> Node:
    content = json_content(ref("ZhinRefusal"))
    if problem := _BEFORE_THE_MOUNT.get(status):
        content |= problem_content(problem)
    return refuses(status, f"Refused: {' or '.join(codes)}." if codes else "Refused.", content)
