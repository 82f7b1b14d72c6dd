"""Routes of events: publish, read, follow."""

from __future__ import annotations

from api.openapi.build import Node, lines, ref
from api.openapi.routes import Route, gives, reply

TAG = "events"
EVENTS = "/v1/sessions/{session_id}/events"


def stream_routes() -> list[Route]:
    return [_publish(), _line(), _read(), _follow(), _feed()]


def _publish() -> Route:
    one_or_many = {"oneOf": [ref("PublishEvent"), ref("PublishBatch")]}
    return Route(
        method="post",
        path=EVENTS,
        name="publishEvents",
        summary="Append events, all or none",
        description="An event has at most 256 KiB, a batch at most 1,000 events and 4 MiB.",
        tag=TAG,
        scope="publish",
        parameters=("If-Match",),
        body={
            "application/json": {"schema": one_or_many},
            "application/x-ndjson": lines("PublishEvent", "One event a line."),
        },
        answers={201: gives("PublishAnswer", "Recorded, with the durability that is told.")},
        problems=(
            "illegal-transition",
            "reserved-type",
            "interrupt-exists",
            "too-many-calls",
            "invalid-snapshot",
            "version-mismatch",
        ),
    )


def _line() -> Route:
    return Route(
        method="get",
        path="/v1/sessions/{session_id}/publish",
        name="openLine",
        summary="Open a line for publishing: a WebSocket",
        description="Each text message is a `LineMessage`, carried out in order as a request with its events would be,"
        " and answered in order by a `LineAnswer` or a `LineRefusal`. Up to 64 may be unanswered; beyond that none is"
        " read. The line is closed with 1001 when the server stops, 1003 for a binary message, 1008 when its key is"
        " revoked, 1009 for a message beyond 4 MiB and 64 KiB, 1013 when too much is under way: behind the answers to"
        " what was taken.",
        tag=TAG,
        scope="publish",
        parameters=("producer", "Layby-Actor", "Sec-WebSocket-Protocol"),
        answers={101: reply("The line is open.", None, "Sec-WebSocket-Protocol")},
        problems=("upgrade-required",),
    )


def _read() -> Route:
    content: Node = {
        "application/x-ndjson": lines("Event", "One event a line."),
        "application/json": {"schema": ref("EventPage")},
    }
    return Route(
        method="get",
        path=EVENTS,
        name="readEvents",
        summary="Read a page of events",
        description="NDJSON, unless `Accept` asks for `application/json`.",
        tag=TAG,
        scope="read",
        parameters=("from_seq", "event_limit", "types", "order"),
        answers={200: reply("One page.", content, "Layby-Last-Seq", "Layby-Next-From", "Vary")},
    )


def _follow() -> Route:
    return Route(
        method="get",
        path="/v1/sessions/{session_id}/stream",
        name="followSession",
        summary="Follow a session live, from any point",
        description=f"{_ACCEPT} A stream that ended by rule says so last; one that was merely cut does not.",
        tag=TAG,
        scope="read",
        parameters=("from", "types", "until", "Last-Event-ID"),
        answers={
            200: reply("Events as they come.", _live("Event", "`id` is the seq, `event` the type.")),
            204: reply("For SSE: the session has ended and its last event was received. Do not reconnect."),
        },
    )


def _feed() -> Route:
    content = _live("FeedEvent", "`id` is the cursor, `event` the type.")
    return Route(
        method="get",
        path="/v1/stream",
        name="followAll",
        summary="Follow all sessions",
        description=f"{_ACCEPT} The events of each session come in order. A deletion is a line of its own.",
        tag=TAG,
        scope="read",
        parameters=("feed_cursor", "types", "Last-Event-ID-feed"),
        answers={200: reply("Events as they come.", content)},
        problems=("cursor-too-old", "diverged"),
    )


_ACCEPT = "NDJSON, or SSE if `Accept` asks for `text/event-stream`. A heartbeat comes every 15 seconds."


def _live(item: str, frame: str) -> Node:
    return {
        "application/x-ndjson": lines(item, "One event a line; an empty line is a heartbeat."),
        "text/event-stream": lines(item, f"One event a frame: {frame} A comment is a heartbeat."),
    }
