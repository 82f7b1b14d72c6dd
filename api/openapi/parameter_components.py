"""Parameters and the headers of answers, by name, in the order in which the document has them."""

from __future__ import annotations

from typing import Final

from api.http.authentication import LAYBY_ACTOR
from api.http.headers import ETAG_PATTERN, IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH
from api.http.json_schema import Node, integer, ref, text
from api.http.parameter_types import Parameter
from api.publish_line import route as line
from api.requests.shared_parameters import AGENT, CURSOR, LIMIT, TYPES
from api.routes import calls, events, session_stream, sessions, tenant_stream
from api.zhin import stream as zhin_stream
from api.zhin.answers import SESSION_HEADER

DECLARED: Final[tuple[Parameter, ...]] = (
    LIMIT,
    CURSOR,
    events.LIMIT,
    events.ORDER,
    TYPES,
    sessions.STATUS,
    sessions.PARKED,
    AGENT,
    calls.STATUS,
    calls.TOOL_NAME,
    sessions.AT,
    sessions.AT_TIME,
    calls.WAIT_MS,
    events.FROM,
    session_stream.FROM,
    session_stream.UNTIL,
    tenant_stream.CURSOR,
    line.PRODUCER,
    zhin_stream.START_INDEX,
    IDEMPOTENCY_KEY,
    LAYBY_ACTOR,
    line.PROTOCOL,
    IF_MATCH,
    IF_NONE_MATCH,
    session_stream.LAST_EVENT_ID,
    tenant_stream.LAST_CURSOR,
)
"""Those that endpoints declare for their query and headers."""


def parameters() -> dict[str, Node]:
    return {**_path(), **{parameter.key: parameter.described() for parameter in DECLARED}}


def _path() -> dict[str, Node]:
    interrupt = "The interrupt_id of the call, percent-encoded."
    return {
        "session_id": _in_path("session_id", text(), "The session."),
        "interrupt_id": _in_path("interrupt_id", ref("InterruptId"), interrupt),
        "id": _in_path("id", text(), "The session."),
        "requestId": _in_path("requestId", ref("InterruptId"), interrupt),
    }


def _in_path(name: str, schema: Node, description: str) -> Node:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def headers() -> dict[str, Node]:
    """Headers of answers."""
    return {
        "Layby-Request-Id": _said(text(), "One for each answer. Quote it when you report a fault."),
        "Idempotency-Replayed": _said({"const": "true"}, "Only there if this repeats the first answer."),
        "Location": _said(text(format="uri-reference"), "The path of the session."),
        "ETag": _said(text(pattern=ETAG_PATTERN), "The version of the session."),
        "Vary": _said({"const": "Accept"}, "The form of the answer depends on it."),
        "Layby-Last-Seq": _said(integer(minimum=1), "The newest seq of the session."),
        "Layby-Next-From": _said(integer(minimum=1), "Where the next page begins; not there at the end."),
        "Retry-After": _said(integer(minimum=0), "Seconds."),
        "WWW-Authenticate": _said(text(examples=['Bearer realm="layby", error="invalid_token"']), "RFC 6750."),
        line.PROTOCOL.name: _said({"const": line.SUBPROTOCOL}, "What the messages are."),
        "Upgrade": _said({"const": "websocket"}, "What the route speaks."),
        SESSION_HEADER: _said(text(), "The session."),
    }


def _said(schema: Node, description: str) -> Node:
    return {"description": description, "schema": schema}
