"""How a refusal travels over HTTP: RFC 9457, and the one table from slug to status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from eventstore.domain.errors import (
    InvalidRequest,
    LaybyError,
    MethodNotAllowed,
    MissingScope,
    Unauthorized,
    Unavailable,
    UpgradeRequired,
)
from eventstore.domain.values import json_text

MEDIA_TYPE: Final = "application/problem+json"
TYPE_BASE: Final = "https://layby.dev/problems/"

STATUS: Final[Mapping[str, int]] = {
    "unauthorized": 401,
    "missing-scope": 403,
    "untrusted-origin": 403,
    "not-found": 404,
    "session-not-found": 404,
    "call-not-found": 404,
    "no-such-point": 404,
    "method-not-allowed": 405,
    "request-timeout": 408,
    "session-exists": 409,
    "session-terminal": 409,
    "session-busy": 409,
    "continuation-token-stale": 409,
    "illegal-transition": 409,
    "interrupt-exists": 409,
    "too-many-calls": 409,
    "run-mismatch": 409,
    "call-already-decided": 409,
    "stale-view": 409,
    "not-approved": 409,
    "result-already-recorded": 409,
    "already-claimed": 409,
    "outcome-unknown": 409,
    "fenced": 409,
    "not-indeterminate": 409,
    "request-in-progress": 409,
    "session-deleted": 410,
    "call-expired": 410,
    "cursor-too-old": 410,
    "diverged": 410,
    "version-mismatch": 412,
    "too-large": 413,
    "invalid-request": 422,
    "invalid-snapshot": 422,
    "reserved-type": 422,
    "idempotency-key-reused": 422,
    "upgrade-required": 426,
    "internal-error": 500,
    "store-unavailable": 503,
    "overloaded": 503,
    "store-full": 507,
}

WEBSOCKET_VERSION: Final = "13"
WRONG_ADDRESS: Final = 400
"""The other status of `invalid-request`: not the body is wrong, but the URL, the query or a header."""


def status_of(error: LaybyError) -> int:
    if isinstance(error, InvalidRequest) and any(e.pointer is None for e in error.errors):
        return WRONG_ADDRESS
    return STATUS[error.slug]


def document(error: LaybyError, instance: str) -> dict[str, Any]:
    """The problem as a JSON object. `instance` is the path of the request that met it."""
    return {
        "type": TYPE_BASE + error.slug,
        "title": error.title,
        "status": status_of(error),
        "detail": error.detail,
        "instance": instance,
        **error.members,
    }


def render(error: LaybyError, instance: str) -> Response:
    """The problem as an HTTP answer, with the headers that its status calls for."""
    # A detail may quote the request, and what was wrong with it may be that it is no UTF-8.
    body = json_text.dumps(document(error, instance)).encode("utf-8", errors="replace")
    return Response(body, status_of(error), headers(error), MEDIA_TYPE)


def headers(error: LaybyError) -> dict[str, str]:
    """What the status of a problem calls for besides."""
    match error:
        case Unauthorized():
            return {"WWW-Authenticate": _challenge('error="invalid_token"' if error.refused else "")}
        case MissingScope():
            return {"WWW-Authenticate": _challenge(f'error="insufficient_scope", scope="{error.scope}"')}
        case MethodNotAllowed():
            return {"Allow": ", ".join(error.allow)}
        case UpgradeRequired():
            return {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": WEBSOCKET_VERSION}
        case Unavailable() if status_of(error) == 503:
            return {"Retry-After": str(error.retry_after_s)}
        case _:
            return {}


def _challenge(why: str) -> str:
    """RFC 6750, section 3: whoever sent no key hears of no error."""
    return f'Bearer realm="layby", {why}' if why else 'Bearer realm="layby"'
