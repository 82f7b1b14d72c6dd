"""Events: as they are published, and as they are stored."""

from __future__ import annotations

from api.http.json_schema import (
    Node,
    answer,
    any_object,
    flag,
    integer,
    many,
    nullable,
    ref,
    request,
    text,
    time,
    words,
)
from api.openapi.schemas_asks import ask_schemas
from api.openapi.schemas_event_data import STORED_DATA, data_schemas
from api.publish_line.messages import ID_MAX
from api.requests.events import BATCH_EVENTS
from api.routes.session_stream import ENDS
from eventstore.domain.events import EVENT_BYTES, RESERVED, TYPE_MAX, TYPE_PATTERN


def event_schemas() -> dict[str, Node]:
    return {
        "EventType": text("Lower-case words joined by dots.", pattern=f"^{TYPE_PATTERN.pattern}$", maxLength=TYPE_MAX),
        "Event": _event(),
        "FeedEvent": _feed_event(),
        "Deletion": _deletion(),
        "StreamEnd": _stream_end(),
        "PublishEvent": _publish_event(),
        "PublishBatch": many(ref("PublishEvent"), minItems=1, maxItems=BATCH_EVENTS),
        "PublishAnswer": _publish_answer(),
        "PublishedEvent": _published_event(),
        **_line_schemas(),
        "EventPage": answer(
            {
                "events": many(ref("Event")),
                "next_from": nullable(integer("Where the next page begins; null at the end.", minimum=1)),
                "last_seq": integer("The newest seq of the session.", minimum=1),
            }
        ),
        **ask_schemas(),
        **data_schemas(),
    }


def _event() -> Node:
    node = answer(
        {
            "seq": integer("Dense, from 1, in each session.", minimum=1),
            "type": ref("EventType"),
            "time": time("When it was recorded. Never goes backwards within a session."),
            "by": text("The writer: a key's name, `anonymous`, or `layby` for what the service derives."),
            "data": any_object(),
        },
        {
            "via": text("The key behind a `Layby-Actor`."),
            "occurred_at": time("What the publisher gave as the time of the event."),
        },
        "One event, exactly as it is stored.",
    )
    return {**node, "allOf": [_when(kind, ref(name)) for kind, name in STORED_DATA.items()]}


def _when(kind: str, data: Node) -> Node:
    """Events of this type have this data."""
    condition = {"required": ["type"], "properties": {"type": {"const": kind}}}
    return {"if": condition, "then": {"required": ["data"], "properties": {"data": data}}}


def _feed_event() -> Node:
    beside = answer({"session_id": text(), "cursor": text("Opaque: resumes the feed after this line.")})
    return {"allOf": [beside, ref("Event")]}


def _deletion() -> Node:
    return answer({"session_id": text(), "deleted": {"const": True}, "cursor": text()})


def _stream_end() -> Node:
    reasons = words(*ENDS, "deleted")
    end = answer({"reason": reasons, "next_from": integer("Where a next stream would begin.", minimum=1)})
    return answer({"end": end}, description="The last line of an NDJSON stream that ended by rule.")


def _publish_event() -> Node:
    node = request(
        {"type": {"allOf": [ref("EventType"), {"not": {"enum": sorted(RESERVED)}}]}},
        {
            "data": any_object("Kept as it is, unknown fields too."),
            "occurred_at": time("The publisher's own time for it."),
        },
        f"An event to append, at most {EVENT_BYTES >> 10} KiB. `step.*` are reserved as well unless the session's"
        " `steps` is `explicit`, and so is an `action.result` that names an interrupt_id of the session.",
    )
    asks = {"input.requested": "InputRequested", "authorization.required": "AuthorizationRequired"}
    return {**node, "allOf": [_when(kind, ref(name)) for kind, name in asks.items()]}


def _publish_answer() -> Node:
    return answer(
        {
            "session_id": text(),
            "first_seq": integer(minimum=1),
            "last_seq": integer(minimum=1),
            "events": many(ref("PublishedEvent"), "What was appended, events that the service derived too."),
            "duplicate": flag("True if nothing at all was appended: every event was asked for before."),
            "durability": words("memory", "fsync", "replicated", description="What was reached."),
        }
    )


def _line_schemas() -> dict[str, Node]:
    """Text messages of a line."""
    name = text("As it was sent.", minLength=1, maxLength=ID_MAX)
    told = ("first_seq", "last_seq", "events", "durability")
    shared = {member: _publish_answer()["properties"][member] for member in told}
    unnamed = nullable(text("Null for a message without an id: it is known by its place, since answers come in order."))
    return {
        "LineMessage": request(
            {"id": text("Told back in the answer.", minLength=1, maxLength=ID_MAX), "events": ref("PublishBatch")},
            {"expected_seq": integer("The version that the session must be at.", minimum=0)},
        ),
        "LineAnswer": answer({"id": name, **shared}),
        "LineRefusal": answer(
            {"id": unnamed, "problem": ref("Problem")}, description="Pointers lead into the message."
        ),
    }


def _published_event() -> Node:
    return answer(
        {"seq": integer(minimum=1), "type": ref("EventType")},
        {
            "interrupt_id": text("Of a request that was there already."),
            "status": ref("CallStatus"),
        },
    )
