"""Parameters and headers that several routes share, by name."""

from __future__ import annotations

from api.openapi.build import Node, flag, integer, ref, text, time, words

SUBPROTOCOL = "layby.v1"
LIST_LIMIT = integer(minimum=1, maximum=1000, default=50)
EVENT_LIMIT = integer(minimum=1, maximum=10_000, default=1000)
ETAG_PATTERN = r'^"[0-9]+"$'
TYPES_PATTERN = r"^[a-z0-9_.*]+(,[a-z0-9_.*]+)*$"


def parameters() -> dict[str, Node]:
    return {**_path(), **_pages(), **_filters(), **_positions(), **_headers()}


def _in_path(name: str, schema: Node, description: str) -> Node:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _query(name: str, schema: Node, description: str) -> Node:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _header(name: str, schema: Node, description: str) -> Node:
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _path() -> dict[str, Node]:
    interrupt = "The interrupt_id of the call, percent-encoded."
    return {
        "session_id": _in_path("session_id", text(), "The session."),
        "interrupt_id": _in_path("interrupt_id", ref("InterruptId"), interrupt),
        "id": _in_path("id", text(), "The session."),
        "requestId": _in_path("requestId", ref("InterruptId"), interrupt),
    }


def _pages() -> dict[str, Node]:
    return {
        "limit": _query("limit", LIST_LIMIT, "How many a page has at most."),
        "cursor": _query("cursor", text(), "The `next_cursor` of the page before."),
        "event_limit": _query("limit", EVENT_LIMIT, "How many a page has at most; bytes may end it earlier."),
        "order": _query("order", words("asc", "desc", default="asc"), "`desc` starts at the newest, or at `from`."),
    }


def _filters() -> dict[str, Node]:
    types = "Only these types, by comma; `step.*` stands for all that begin so. Does not change any seq."
    call_status: Node = {**ref("CallStatus"), "default": "PENDING_APPROVAL"}
    return {
        "types": _query("types", text(pattern=TYPES_PATTERN, examples=["step.*,session.waiting"]), types),
        "session_status": _query("status", ref("SessionStatus"), "Only sessions of this status."),
        "parked": _query("parked", flag(), "Only sessions in which a call waits, or none does."),
        "agent": _query("agent", text(), "Only those of this agent."),
        "call_status": _query("status", call_status, "Only calls of this status."),
        "tool_name": _query("tool_name", text(), "Only calls of this tool."),
    }


def _positions() -> dict[str, Node]:
    begin = text(pattern=r"^(now|-?[1-9][0-9]*)$", default="1")
    until = "Ends the stream after the event that reaches this."
    wait = "Holds the answer until the call is no longer PENDING_APPROVAL, or this time is up."
    feed = "Opaque, from the feed itself; or `now`. The beginning unless given."
    index = {"type": "integer", "minimum": 0, "default": 0}
    producer = "Makes ids safe to repeat: each is then the Idempotency-Key `<producer>:<id>` of its events."
    return {
        "at": _query("at", integer(minimum=1), "As of this seq."),
        "at_time": _query("at_time", time(), "As of this time."),
        "wait_ms": _query("wait_ms", integer(minimum=0, maximum=60_000, default=0), wait),
        "from_seq": _query("from", integer(minimum=1), "The seq to start at; 1 unless given."),
        "from": _query("from", begin, "A seq; negative counts from the end; `now` is what comes next."),
        "until": _query("until", words("idle", "parked", "terminal"), until),
        "feed_cursor": _query("cursor", text(), feed),
        "producer": _query("producer", text(pattern="^[ -~]{1,198}$"), producer),
        "startIndex": _query("startIndex", index, "The 0-based index of the first event."),
    }


def _headers() -> dict[str, Node]:
    key = text(pattern="^[ -~]{1,200}$")
    retry = "For 24 hours the same key with the same body answers what the first request did."
    actor = text(minLength=1, maxLength=200)
    person = "The person behind a console: `by` is then this name, and `via` that of the key. Needs the scope `act_as`."
    version = text(pattern=ETAG_PATTERN, examples=['"7"'])
    resume = "Resumes after it. Beats the query."
    return {
        "Idempotency-Key": _header("Idempotency-Key", key, retry),
        "Layby-Actor": _header("Layby-Actor", actor, person),
        "Sec-WebSocket-Protocol": _header("Sec-WebSocket-Protocol", text(examples=[SUBPROTOCOL]), "Must offer it."),
        "If-Match": _header("If-Match", version, "The version that the session must be at."),
        "If-None-Match": _header("If-None-Match", text(), "The version that is known already."),
        "Last-Event-ID": _header("Last-Event-ID", text(pattern="^[0-9]+$"), f"The last seq. {resume}"),
        "Last-Event-ID-feed": _header("Last-Event-ID", text(), f"The last cursor received. {resume}"),
    }


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
        "Sec-WebSocket-Protocol": _said({"const": SUBPROTOCOL}, "What the messages are."),
        "Upgrade": _said({"const": "websocket"}, "What the route speaks."),
        "x-zhin-session-id": _said(text(), "The session."),
    }


def _said(schema: Node, description: str) -> Node:
    return {"description": description, "schema": schema}
