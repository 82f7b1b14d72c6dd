"""What a route takes and answers, as its declaration says it in the words of OpenAPI."""

from __future__ import annotations

from typing import Final

from api.http.json_schema import Node, ref, text
from api.http.problems import MEDIA_TYPE
from api.requests.bodies import JSON_TYPE
from api.streaming.encoders import NDJSON_TYPE, SSE_TYPE
from eventstore.domain.errors import LaybyError
from eventstore.support.timing import TIMING


def json_content(schema: Node) -> dict[str, Node]:
    return {JSON_TYPE: {"schema": schema}}


def lines(item: str, description: str) -> Node:
    """A content of lines or frames, each of which is one `item`. OpenAPI 3.1 cannot say that itself."""
    return {"schema": text(f"{description} See the schema `{item}`.")}


STREAM_FORMS: Final = (
    f"NDJSON, or SSE if `Accept` asks for `{SSE_TYPE}`. A heartbeat comes every {TIMING.heartbeat_s:.0f} seconds."
)


def stream_content(item: str, frame: str) -> dict[str, Node]:
    """Both forms of a stream; `frame` says what stands beside an item in SSE."""
    return {
        NDJSON_TYPE: lines(item, "One event a line; an empty line is a heartbeat."),
        SSE_TYPE: lines(item, f"One event a frame: {frame} A comment is a heartbeat."),
    }


def answer_header(name: str) -> Node:
    return {"$ref": f"#/components/headers/{name}"}


def reply(description: str, content: Node | None = None, *headers: str) -> Node:
    """One answer, which carries the request's id as all do."""
    told = {name: answer_header(name) for name in ("Layby-Request-Id", *headers)}
    node: Node = {"description": description, "headers": told}
    return {**node, "content": content} if content else node


def gives(schema: str, description: str, *headers: str) -> Node:
    """An answer in JSON."""
    return reply(description, json_content(ref(schema)), *headers)


def refuses(status: int, description: str, content: Node) -> Node:
    """A refusal, with the headers that its status calls for."""
    return reply(description, content, *_REFUSAL_HEADERS.get(status, ()))


_REFUSAL_HEADERS = {401: ("WWW-Authenticate",), 403: ("WWW-Authenticate",), 426: ("Upgrade",), 503: ("Retry-After",)}


def problem_schema(problem: type[LaybyError]) -> str:
    """The name of its schema."""
    return f"Problem-{problem.slug}"


def problem_content(*problems: type[LaybyError]) -> Node:
    """A problem document, of one of these."""
    refs = [ref(problem_schema(problem)) for problem in problems]
    return {MEDIA_TYPE: {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}
