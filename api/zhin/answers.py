"""How this mount answers: `{"ok":true,…}`, or `{"ok":false,"error":"CODE"}` whatever went wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from api.http import problems
from api.http.router import Endpoint
from api.requests.bodies import encode, json_answer
from eventstore.commit.batch import Answer
from eventstore.domain.errors import InternalError, InvalidRequest, LaybyError, SessionNotFound
from eventstore.domain.values.field_types import SESSION_ID

log = logging.getLogger("layby.http")

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


def guarded(endpoint: Endpoint, codes: Mapping[str, str] = _CODES) -> Endpoint:
    """The endpoint, with every fault in the form of this mount, and the header that names the session."""

    async def guard(request: Request) -> Response:
        try:
            response = await endpoint(request)
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


def session_of(request: Request) -> str:
    """The session that the path names. Raises `SessionNotFound`."""
    return named(request, request.path_params["id"])


def _refusal(error: LaybyError, codes: Mapping[str, str]) -> Response:
    form = problems.headers(error)
    headers = {name: form[name] for name in _PASSED_ON if name in form}
    return json_answer(encode({"ok": False, "error": _code(error, codes)}), _status(error), headers)


def _code(error: LaybyError, codes: Mapping[str, str]) -> str:
    if isinstance(error, BadRequest):
        return error.code
    return codes.get(error.slug) or error.slug.upper().replace("-", "_")


def _status(error: LaybyError) -> int:
    """As everywhere, but for two that the model answers with 400."""
    return 400 if error.slug in ("invalid-request", "session-terminal") else problems.status_of(error)
